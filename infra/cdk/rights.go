package cdk

import (
	"fmt"
	"maps"
	"reflect"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/option"
)

// statement allows actions on resources, under conditions: the accepted values by operator and key.
type statement struct {
	actions    []string
	resources  []*string
	conditions map[string]*map[string]any
}

func allow(actions []string, resources ...*string) statement {
	return statement{actions: actions, resources: resources, conditions: map[string]*map[string]any{}}
}

// when adds a condition.
func (s statement) when(operator, key string, accepted any) statement {
	s.conditions = maps.Clone(s.conditions)
	s.conditions[operator] = &map[string]any{key: accepted}
	return s
}

func policyStatements(all []statement) *[]awsiam.PolicyStatement {
	var out []awsiam.PolicyStatement
	for _, s := range all {
		conditions := map[string]any{}
		for operator, keys := range s.conditions {
			conditions[operator] = *keys
		}
		out = append(out, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Actions: jsii.Strings(s.actions...), Resources: &s.resources, Conditions: &conditions,
		}))
	}
	return &out
}

// newRights declares a policy of a role or user that was created elsewhere, in the limiter's own
// stack. In the role's stack, the rights would make the two stacks depend on each other: the
// function's on the role, and the role's on the table that the rights name. A role imported as
// immutable gets no rights.
//
// The name includes the limiter's path and region, because several limiters may give rights to one
// role.
func (l *Limiter) newRights(id, purpose string, of awsiam.IIdentity) awsiam.Policy {
	stack := awscdk.Stack_Of(l)
	name := *awscdk.Names_UniqueResourceName(l, &awscdk.UniqueResourceNameOptions{MaxLength: jsii.Number(60)}) +
		"-" + purpose + "-" + *stack.Region()
	p := awsiam.NewPolicy(l, jsii.String(id), &awsiam.PolicyProps{PolicyName: jsii.String(name)})
	of.AttachInlinePolicy(p)
	accept(p, rightsOfFunctions()...)
	return p
}

// whereRightsGo returns the receiver of a grant's statements: the grantee, whose stack then depends
// on the limiter's. If the limiter's stack already depends on the grantee's, it is a policy in the
// limiter's stack.
func (l *Limiter) whereRightsGo(grantee awsiam.IGrantable) awsiam.IGrantable {
	of, ok := grantee.GrantPrincipal().(awsiam.IIdentity)
	if !ok || !l.waitsFor(awscdk.Stack_Of(of)) {
		return grantee
	}
	id := "Rights" + *awscdk.Names_NodeUniqueId(of.Node())
	if p, ok := l.Node().TryFindChild(jsii.String(id)).(awsiam.Policy); ok {
		return p
	}
	return l.newRights(id, "grants-"+(*of.Node().Addr())[:8], of) // one role may be imported twice
}

// waitsFor reports whether the limiter's stack is deployed after another one, because the
// properties refer to a resource in it, or because the app requires it.
func (l *Limiter) waitsFor(other awscdk.Stack) bool {
	own := awscdk.Stack_Of(l)
	if same(own, other) {
		return false
	}
	for _, d := range *own.Dependencies() {
		if same(d, other) {
			return true
		}
	}
	for _, text := range append(l.props.texts(), l.buckets()...) {
		for _, token := range *awscdk.Tokenization_ReverseString(jsii.String(text)).Tokens() {
			if r, ok := token.(awscdk.Reference); ok && same(awscdk.Stack_Of(r.Target()), other) {
				return true
			}
		}
	}
	return false
}

// buckets returns the names of the buckets that hold the given programs. The functions have bound
// them before, so binding changes nothing.
func (l *Limiter) buckets() (out []string) {
	c := l.props.Code
	for _, p := range []struct {
		of   awslambda.Function
		code awslambda.Code
	}{{l.Aggregator, c.Aggregator}, {l.Archiver, c.Archiver}, {l.Setup, c.Setup}} {
		if p.of == nil || p.code == nil {
			continue
		}
		if at := p.code.Bind(p.of).S3Location; at != nil {
			out = append(out, *at.BucketName)
		}
	}
	return out
}

func same(a, b constructs.IConstruct) bool { return *a.Node().Path() == *b.Node().Path() }

// texts returns all texts of the properties, and the names of resources created elsewhere. If they
// refer to another stack, they contain tokens.
func (p *Props) texts() (out []string) {
	option.Walk(p, func(_ reflect.StructField, is reflect.Value) { out = append(out, fmt.Sprint(is)) })
	add := func(s *string) { out = append(out, *s) }
	for _, key := range p.keys() {
		if key.is != nil {
			add(key.is.KeyArn())
		}
	}
	for _, role := range []awsiam.IRole{p.Aggregator.Role, p.Archiver.Role, p.Setup.Role} {
		if role != nil {
			add(role.RoleArn())
		}
	}
	for _, topic := range []awssns.ITopic{p.Alarms.Topic, p.Alarms.UrgentTopic} {
		if topic != nil {
			add(topic.TopicArn())
		}
	}
	if target := p.Alerts.target(); target != nil {
		add(target)
	}
	if p.ExistingTable != nil {
		add(p.ExistingTable.TableArn())
	}
	if p.IAM.PermissionBoundary != nil {
		add(p.IAM.PermissionBoundary.ManagedPolicyArn())
	}
	if n := p.Network; n.VPC != nil {
		add(n.VPC.VpcId())
		for _, group := range n.SecurityGroups {
			add(group.SecurityGroupId())
		}
		if n.Subnets != nil && n.Subnets.Subnets != nil {
			for _, subnet := range *n.Subnets.Subnets {
				add(subnet.SubnetId())
			}
		}
	}
	return out
}
