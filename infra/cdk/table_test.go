package cdk_test

import (
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/infra/cdk"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

// A table can be warm for more reads or writes than a new one, without changing the other.
func TestWarmTables(t *testing.T) {
	const warm = `"WarmThroughput":{"ReadUnitsPerSecond":`
	for want, p := range map[string]cdk.TableProps{
		warm + `20000,"WriteUnitsPerSecond":4000}`: {WarmReadUnits: 20_000},
		warm + `12000,"WriteUnitsPerSecond":5000}`: {WarmWriteUnits: 5_000},
		"": {},
	} {
		s := newStacks(t)
		s.props.Table = p
		cdk.New(s.limits, "Limits", &s.props)
		check.Must(t, s.synth())
		text := s.template(t, "Limits")["AWS::DynamoDB::Table"]
		if !strings.Contains(text, want) || want == "" && strings.Contains(text, warm) {
			t.Errorf("%+v: %s", p, text)
		}
	}
}

// A customer's key encrypts the table and the buckets. It encrypts the functions' logs and
// environments only if configured.
func TestACustomersKeyEncryptsData(t *testing.T) {
	s := newStacks(t)
	s.props.Key = s.key(s.limits, "Key")
	cdk.New(s.limits, "Limits", &s.props)
	check.Must(t, s.synth())
	text := s.template(t, "Limits")
	for kind, want := range map[string]string{
		"AWS::DynamoDB::Table": `"SSEType":"KMS"`, "AWS::S3::Bucket": `"SSEAlgorithm":"aws:kms"`,
	} {
		if !strings.Contains(text[kind], want) {
			t.Errorf("not encrypted: %s", text[kind])
		}
	}
	for kind, not := range map[string]string{"AWS::Lambda::Function": "KmsKeyArn", "AWS::Logs::LogGroup": "KmsKeyId"} {
		if strings.Contains(text[kind], not) {
			t.Errorf("encrypted: %s", text[kind])
		}
	}
}
