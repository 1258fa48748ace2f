package main

import (
	"slices"
	"strings"
	"testing"
)

// TestKeysAreUsedThroughServices: every right on a customer key holds only for what one AWS
// service does for the caller, and is what that takes: who only reads may not encrypt. The
// names of the services end alike in all partitions, also where domains do not: the KMS
// developer guide says so of kms:ViaService.
func TestKeysAreUsedThroughServices(t *testing.T) {
	reads := []string{"kms:Decrypt", "kms:DescribeKey"}
	writes := append(slices.Clone(reads), "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
	objects, environment := []string{"kms:GenerateDataKey"}, []string{"kms:Decrypt"}
	want := map[string]map[string][]string{
		"ReadPolicy": {"dynamodb": reads}, "NamespaceReadPolicy": {"dynamodb": reads},
		"AcquirePolicy": {"dynamodb": writes}, "NamespaceAcquirePolicy": {"dynamodb": writes},
		"AdminPolicy": {"dynamodb": writes}, "NamespaceAdminPolicy": {"dynamodb": writes},
		"AggregatorRole": {"s3": objects, "lambda": environment, "dynamodb": writes},
		"ArchiverRole":   {"s3": objects, "lambda": environment, "dynamodb": reads},
	}
	found := 0
	for kind, documents := range map[string]func(resource) []any{
		"AWS::IAM::ManagedPolicy": func(r resource) []any { return []any{r.Properties} },
		"AWS::IAM::Role":          func(r resource) []any { return list(r.Properties["Policies"]) },
		"AWS::IAM::Policy":        func(r resource) []any { return []any{r.Properties} },
	} {
		for id, r := range changed.ofType(kind) {
			name := id[:len(id)-8] // of a hash
			rights := map[string][]string{}
			for _, d := range documents(r) {
				for _, s := range list(dig(d, "PolicyDocument", "Statement")) {
					if !strings.Contains(text(t, dig(s, "Action")), `"kms:`) {
						continue
					}
					found++
					service := via(t, s)
					for _, a := range list(dig(s, "Action")) {
						rights[service] = append(rights[service], a.(string))
					}
					slices.Sort(rights[service])
				}
			}
			if text(t, rights) != text(t, want[name]) {
				t.Errorf("%s may use keys through %v, want %v", name, rights, want[name])
			}
		}
	}
	if found == 0 {
		t.Error("no role has rights on a key")
	}
}

// via returns the service through which alone a statement holds.
func via(t *testing.T, statement any) string {
	t.Helper()
	for _, service := range []string{"dynamodb", "s3", "lambda"} {
		want := `{"StringEquals":{"kms:ViaService":{"Fn::Join":["",["` + service +
			`.",{"Ref":"AWS::Region"},".amazonaws.com"]]}}}`
		if text(t, dig(statement, "Condition")) == want {
			return service
		}
	}
	t.Errorf("the right holds without a service of this region: %s", text(t, statement))
	return ""
}
