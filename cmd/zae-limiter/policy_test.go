package main

import (
	"encoding/csv"
	"strings"
	"testing"
)

// What nobody has decided is said to be undecided, with what is in force then.
func TestAnUndecidedPolicy(t *testing.T) {
	s := newShell(t)
	s.says(0, "policy get", "undecided (block, unless a client says otherwise)", "undecided (90)")
	if out, _ := s.run(0, "policy", "get", "-o", "json"); out != "{}\n" {
		t.Errorf("as JSON: %s", out)
	}
}

func TestPolicyAndNoUsage(t *testing.T) {
	s := newShell(t)
	for _, keep := range []string{"never", "1h", "100000h", "3661d", "-1d"} {
		s.says(2, "policy set --audit-retention "+keep, "--audit-retention: ", "whole days")
	}
	s.says(1, "policy set --on-unavailable allow", `Change the policy of namespace "default"?`)
	s.says(0, "policy set -y --on-unavailable block --audit-retention 30d")
	type policy struct {
		OnUnavailable string `json:"on_unavailable"`
		Days          int    `json:"audit_retention_days"`
	}
	if got := prints[policy](s, "policy get"); got != (policy{"block", 30}) {
		t.Errorf("policy: %+v", got)
	}
	s.says(2, "policy set --on-unavailable maybe", "--on-unavailable maybe: accepted are block")
	s.says(2, "policy set", "nothing to set")
	s.says(2, "usage", "whose usage")
	s.says(2, "usage -e acme --sum", "--sum wants one")
	s.says(2, "usage -e acme --sum --plot -w daily", "--plot is for people")
	s.says(2, "usage -e acme --from yesterday --to now", `--from "yesterday" --to "now": want dates`)
	s.says(0, "usage -e acme", "nothing there")
	s.says(0, "usage -e acme --sum -w daily", "nothing there")
	out, _ := s.run(0, "usage", "-e", "acme", "-o", "csv")
	if all, err := csv.NewReader(strings.NewReader(out)).ReadAll(); err != nil || len(all) != 1 || len(all[0]) != 8 {
		t.Errorf("csv: %v, %v", all, err)
	}
}
