package admin

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Whose name an event bears, in order: that of As, of the options, of the caller's
// identity, which is asked for once; nobody's if that fails.
func TestEventsNameThePrincipal(t *testing.T) {
	asked := 0
	caller := func(err error) func(*Options) {
		return func(o *Options) {
			o.Principal = ""
			o.Caller = func(ctx context.Context) (string, error) {
				if at, ok := ctx.Deadline(); !ok || time.Until(at) > ages || time.Until(at) < ages/2 {
					t.Errorf("it is asked until %v", at)
				}
				asked++
				return "arn:aws:iam::1:role/x", err
			}
		}
	}
	for i, tt := range []struct {
		change func(*Options)
		as     string
		want   string
	}{
		{func(*Options) {}, "", "alice"},
		{func(*Options) {}, "bob", "bob"},
		{caller(nil), "", "arn:aws:iam::1:role/x"},
		{caller(nil), "bob", "bob"},
		{caller(errors.New("no")), "", ""},
		{func(o *Options) {
			o.Principal, o.Caller = "", func(context.Context) (string, error) { return "no\nname", nil }
		}, "", ""},
	} {
		w := newWorld(t, tt.change)
		ns, err := w.ns.As(tt.as)
		w.must(err)
		asked = 0
		for range 3 {
			w.must(ns.SetLimits(t.Context(), Scope{}, rpm10))
		}
		if got := w.events(Scope{})[0].Principal; got != tt.want || asked > 1 {
			t.Errorf("case %d: by %q, want %q; asked %d times", i, got, tt.want, asked)
		}
	}
}
