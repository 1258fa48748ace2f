package main

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// What can only be refused is refused before anybody is asked, and before anything is written.
func TestWhatIsRefusedAsksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a removal waits for the index
		noAWS(t)
		begin, manifest, real := furnished(t)
		manifest("resources: {gpt-4: {limits: {rpm: {capacity: 0}}}}\n")
		many := ""
		for i := range 40 {
			many += fmt.Sprintf(" l%d=1", i)
		}
		for _, c := range []struct{ command, says string }{
			{"apply MANIFEST", "Capacity is 0"},
			{"policy set --audit-retention 1h", "whole days"},
			{"policy set --audit-retention 100000h", "whole days"},
			{"policy set --audit-retention 3661d", "whole days"},
			{"policy set --audit-retention -1d", "whole days"},
			{"limits set -r gpt-4 rpm=0", "rpm=0"},
			{"limits set -r gpt-4 wcu=5", "wcu"},
			{"limits set -e a\x01 rpm=5", `a\x01`},
			{"limits set -r gpt-4" + many, "limits"},
			{"limits delete -r a\x01", `a\x01`},
			{"disable -e a\x01", `a\x01`},
			{"enable -r a\x01 --inherit", `a\x01`},
			{"entity move acme --parent a\x01", `a\x01`},
			{"entity move acme --parent nobody", "no such entity"},
			{"entity move acme --parent acme", "circle"},
			{"entity move org --parent acme", "a circle, org -> acme -> org"},
			{"entity move nobody --parent org", "not found"},
			{"entity delete a\x01", `a\x01`},
			{"reset acme gpt-4 tpm", `limit "tpm"`},
			{"reset a\x01 gpt-4", `a\x01`},
			{"reset acme a\x01", `a\x01`},
			{"reset acme gpt-4 --id #", "#"},
			{"namespace delete nobody", "nobody"},
			{"namespace purge PROD", "another state"},
			{"namespace purge prod", "name of a namespace in use"},
			{"namespace purge _", "reserved"},
		} {
			s := begin.copy()
			s.stdin = "y\n"
			_, errs, code := s.end(strings.Fields(real.Replace(c.command))...)
			if code == done || strings.Contains(errs, "[y/N]") || !strings.Contains(errs, c.says) {
				t.Errorf("zae-limiter %s: %d\n%s", c.command, code, errs)
			}
		}
	})
}
