package cdk

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/limitertable"
)

// elsewhere checks Props.ExistingTable during synthesis, if this app declares the table. If the
// table is imported, the setup function checks it during deployment.
type elsewhere struct{ l *Limiter }

// Validate returns the faults that prevent the limiter from working, as errors of the synthesis,
// and warns of the others.
func (e *elsewhere) Validate() *[]*string {
	is, ok, err := declaredTable(e.l.Table)
	if !ok {
		return &[]*string{}
	}
	if err == nil {
		e.l.warnOf(is)
		d := is.description(*e.l.Table.Node().Path())
		must := limitertable.Deployed()
		must.TTLAttribute = d.Spec.TTLAttribute // a warning reports it
		if p := e.l.props; p.Aggregator.Off && p.Archiver.Off {
			must.StreamViewType = d.Spec.StreamViewType
		}
		err = must.Check(d)
	}
	var problems []string
	if differs, ok := errors.AsType[*limitertable.DiffError](err); ok {
		for _, d := range differs.Diffs {
			problems = append(problems, "ExistingTable: "+d)
		}
	} else if err != nil {
		problems = append(problems, "ExistingTable: "+err.Error())
	}
	return jsii.Strings(problems...)
}

// declared is the properties of a table in CDK's resources, global or not.
type declared struct {
	KeySchema               []types.KeySchemaElement
	AttributeDefinitions    []types.AttributeDefinition
	GlobalSecondaryIndexes  []types.GlobalSecondaryIndex
	StreamSpecification     struct{ StreamViewType types.StreamViewType }
	TimeToLiveSpecification struct {
		AttributeName string
		Enabled       bool
	}
	DeletionProtectionEnabled bool
	Replicas                  []struct{ DeletionProtectionEnabled bool }
	copies                    int // replicas that CDK's older construct creates with custom resources
}

// tableResource is a table of either kind.
type tableResource interface {
	awscdk.CfnResource
	KeySchema() any
	AttributeDefinitions() any
	GlobalSecondaryIndexes() any
	StreamSpecification() any
	TimeToLiveSpecification() any
}

// declaredTable returns a table's declaration in this app; ok is false if it is imported.
func declaredTable(of awsdynamodb.ITable) (is declared, ok bool, err error) {
	resource := of.Node().DefaultChild()
	t, ok := resource.(tableResource)
	if !ok {
		return is, false, nil
	}
	parts := map[string]any{
		"KeySchema": t.KeySchema(), "AttributeDefinitions": t.AttributeDefinitions(),
		"GlobalSecondaryIndexes": t.GlobalSecondaryIndexes(), "StreamSpecification": t.StreamSpecification(),
		"TimeToLiveSpecification": t.TimeToLiveSpecification(),
	}
	if one, ok := resource.(interface{ DeletionProtectionEnabled() any }); ok {
		parts["DeletionProtectionEnabled"] = one.DeletionProtectionEnabled()
	}
	if global, ok := resource.(interface{ Replicas() any }); ok {
		parts["Replicas"] = global.Replicas()
	}
	text, err := json.Marshal(awscdk.Stack_Of(t).Resolve(parts))
	if err == nil {
		err = json.Unmarshal(text, &is)
	}
	if err != nil {
		err = fmt.Errorf("its properties: %w", err)
	}
	for _, part := range *of.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		if r, ok := part.(awscdk.CfnResource); ok && *r.CfnResourceType() == "Custom::DynamoDBReplica" {
			is.copies++
		}
	}
	return is, true, err
}

func (is declared) description(name string) limitertable.Description {
	d := limitertable.Description{Name: name, Spec: limitertable.Spec{
		KeySchema: is.KeySchema, Attributes: is.AttributeDefinitions,
		GlobalIndexes: is.GlobalSecondaryIndexes, StreamViewType: is.StreamSpecification.StreamViewType}}
	if is.TimeToLiveSpecification.Enabled {
		d.Spec.TTLAttribute = is.TimeToLiveSpecification.AttributeName
	}
	return d
}

// warnOf warns of faults that do not stop the limiter from working.
func (l *Limiter) warnOf(is declared) {
	protected := is.DeletionProtectionEnabled
	for _, r := range is.Replicas {
		protected = protected || r.DeletionProtectionEnabled
	}
	if !protected {
		l.warn("deletionProtection", "ExistingTable has no deletion protection: one DeleteTable deletes every limit.")
	}
	if ttl := is.TimeToLiveSpecification; !ttl.Enabled || ttl.AttributeName != layout.AttrTTL {
		l.warn("timeToLive", fmt.Sprintf("ExistingTable has no time to live by %q: buckets, usage and audit events "+
			"stay for ever, and none is archived.", layout.AttrTTL))
	}
	if n := max(len(is.Replicas), 1) + is.copies; n > 1 {
		l.warn("replicas", fmt.Sprintf("ExistingTable is a global table with %d replicas: where two regions charge "+
			"one bucket, limits are exceeded without a word. Charge in one region only (docs/deploying.md).", n))
	}
}

// warn adds a warning to the synthesis; an app can acknowledge it by its id.
func (l *Limiter) warn(id, text string) {
	awscdk.Annotations_Of(l).AddWarningV2(jsii.String("zae-limiter:"+id), jsii.String(text))
}
