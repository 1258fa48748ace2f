package cdk_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// stacks is an app of two stacks: platform has roles, keys and topics, and limits has the limiter.
type stacks struct {
	app              awscdk.App
	platform, limits awscdk.Stack
	dir, program     string
	props            cdk.Props
}

func newStacks(t *testing.T) *stacks {
	t.Helper()
	s := &stacks{dir: t.TempDir()}
	s.app = awscdk.NewApp(&awscdk.AppProps{Outdir: jsii.String(s.dir), AnalyticsReporting: jsii.Bool(false)})
	s.platform = awscdk.NewStack(s.app, jsii.String("Platform"), nil)
	s.limits = awscdk.NewStack(s.app, jsii.String("Limits"), nil)
	s.program = t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(s.program, "bootstrap"), []byte("program"), 0o755))
	s.props = cdk.Props{Code: s.code(), DashboardOff: true}
	return s
}

// code returns the programs, separately for each stack.
func (s *stacks) code() cdk.Code {
	program := awslambda.Code_FromAsset(jsii.String(s.program), nil)
	return cdk.Code{Aggregator: program, Archiver: program, Setup: program}
}

func (s *stacks) role(id string) awsiam.Role {
	return awsiam.NewRole(s.platform, jsii.String(id), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil)})
}

func (s *stacks) key(in awscdk.Stack, id string) awskms.Key {
	return awskms.NewKey(in, jsii.String(id), nil)
}

func (s *stacks) topic(id string) awssns.Topic {
	return awssns.NewTopic(s.platform, jsii.String(id), nil)
}

// synth synthesizes the app. It returns an error if the construct library panics.
func (s *stacks) synth() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	s.app.Synth(nil)
	return nil
}

// template returns the resources of a stack, by type, as text.
func (s *stacks) template(t *testing.T, stack string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, stack+".template.json"))
	check.Must(t, err)
	var doc struct {
		Resources map[string]map[string]any
	}
	check.Must(t, json.Unmarshal(text, &doc))
	out := map[string]string{}
	for _, r := range doc.Resources {
		one, err := json.Marshal(r)
		check.Must(t, err)
		out[r["Type"].(string)] += string(one) + "\n"
	}
	return out
}
