package loadcheck

import (
	"cmp"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

var rpm = Account{"acme", "gpt-4", "rpm"}

// under is a rule that was seen for a millisecond.
func under(at, capacity int64) Rule {
	return Rule{From: at, To: at + 1, Capacity: capacity, Amount: 60, Period: 60_000}
}

func TestLostAnswersLeaveTheBookOpen(t *testing.T) {
	var b Book
	for _, step := range []struct {
		name      string
		do        func()
		low, high int64
	}{
		{"granted", func() { b.Granted(rpm, under(1, 100), 50) }, 50, 50},
		{"given back", func() { b.Settled(rpm, 2, 3, -20, true) }, 30, 30},
		{"taken and given back", func() { b.Passing(rpm, 3, 4, 9) }, 30, 30},
		{"an acquire without an answer", func() { b.Settled(rpm, 4, 5, 7, false) }, 30, 37},
		{"a rollback without an answer", func() { b.Settled(rpm, 5, 6, -5, false) }, 25, 37},
		{"a commit of more without an answer", func() { b.Settled(rpm, 6, 7, 3, false) }, 25, 40},
		{"one more without an answer", func() { b.Settled(rpm, 7, 8, 1, false) }, 25, 41},
		{"a commit of one more", func() { b.Settled(rpm, 8, 9, 1, true) }, 26, 42},
		{"a commit of what was taken", func() { b.Settled(rpm, 9, 10, 0, true) }, 26, 42},
		{"granted nothing", func() { b.Granted(rpm, under(10, 100), 0) }, 26, 42},
		{"granted one", func() { b.Granted(rpm, under(11, 100), 1) }, 27, 43},
	} {
		step.do()
		if p := b.Page(rpm); p.Low != step.low || p.High != step.high {
			t.Errorf("%s: %d to %d, want %d to %d", step.name, p.Low, p.High, step.low, step.high)
		}
	}
	want := []Event{
		{Kind: Grant, Sent: 1, Answered: 2, Tokens: 50}, {Kind: Return, Sent: 2, Answered: 3, Tokens: 20},
		{Kind: Passing, Sent: 3, Answered: 4, Tokens: 9}, {Kind: Return, Sent: 5, Answered: 6, Tokens: 5},
		{Kind: Grant, Sent: 11, Answered: 12, Tokens: 1},
	}
	p := b.Page(rpm)
	if !slices.Equal(p.Events, want) || p.Granted() != 51 {
		t.Errorf("%v, %d granted; want %v", p.Events, p.Granted(), want)
	}
	if all := b.Pages(); len(all) != 1 || !reflect.DeepEqual(all[rpm], p) {
		t.Errorf("all pages are %+v, want that of %v: %+v", all, rpm, p)
	}
	check.Deep(t, b.Page(Account{}), Page{}, "an account without entries")
}

// If clocks differ by a fraction of a millisecond, a whole one is allowed. Tokens given back to a
// full bucket may be granted again only if the bucket keeps them.
func TestClockErrorsAndGiveBacksAreAllowed(t *testing.T) {
	var b Book
	for at, tokens := range map[int64]int64{0: 10, 20: 1} {
		b.Granted(rpm, Rule{From: at, To: at, Capacity: 10, Amount: 1, Period: 21}, tokens)
	}
	for apart, want := range map[time.Duration]int64{0: 48, 1: 0, time.Millisecond - 1: 0, time.Millisecond: 0,
		time.Millisecond + 1: -47} {
		if all, err := b.Judge(apart, false); err != nil || all[0].Excess != want {
			t.Errorf("clocks apart by %v: %v, %v; want an excess of %d", apart, all, err, want)
		}
	}
	b.Settled(rpm, 5000, 5001, -10, true)
	b.Granted(rpm, Rule{From: 6000, To: 6001, Capacity: 10, Amount: 1, Period: 21}, 20)
	for kept, over := range map[bool]bool{false: true, true: false} {
		if all, err := b.Judge(time.Millisecond, kept); err != nil || all[0].Excess > 0 != over {
			t.Errorf("kept %v: %v, %v; want an excess: %v", kept, all, err, over)
		}
	}
}

// Every account is judged separately, by the rules that were seen for it.
func TestEveryAccountIsJudged(t *testing.T) {
	var b Book
	tpm, other := Account{"acme", "gpt-4", "tpm"}, Account{"acme", "other", "rpm"}
	for _, at := range []int64{1, 2} {
		b.Granted(rpm, under(at, 10), 1)
		b.Granted(tpm, under(at, 100), 65)
	}
	b.Settled(other, 1, 2, 3, false) // nothing was granted
	b.Settled(Account{"aaa", "gpt-4", "rpm"}, 1, 2, 3, false)
	all, err := b.Judge(0, false)
	if err != nil || len(all) != 2 || all[0].Account != rpm || all[1].Account != tpm || all[0].Over() != 0 {
		t.Fatalf("%v, %v; want rpm within its limit, and tpm", all, err)
	}
	worst, ok := all.Worst()
	if !ok || worst.Account != tpm || worst.Excess <= 29_000 || worst.Excess >= 30_000 {
		t.Errorf("%v, want almost 30 tokens of tpm", worst)
	}
	if _, ok := Judgement(nil).Worst(); ok {
		t.Error("an empty book has a worst account")
	}
	b.Granted(rpm, Rule{From: 3, To: 4, Capacity: 1, Amount: 1}, 1)
	check.Says(t, check.Err(b.Judge(0, false)), "rpm of acme on gpt-4", "a rule without a period")
}

func TestBookOfManyClients(t *testing.T) {
	var b Book
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range int64(100) {
				b.Granted(rpm, under(i, 1000), 2)
				b.Settled(rpm, i, i, -1, true)
				b.Page(rpm)
				b.Pages()
			}
		})
	}
	all.Wait()
	if p := b.Page(rpm); p.Low != 800 || p.High != 800 || p.Granted() != 1600 {
		t.Errorf("%d to %d, %d granted; want 800 of 1600", p.Low, p.High, p.Granted())
	}
}

// Accounts are ordered by entity, resource and limit, and their text has all three.
func TestAccountsAreOrdered(t *testing.T) {
	all := []Account{{"a", "x", "m"}, {"a", "x", "n"}, {"a", "y", "l"}, {"b", "w", "k"}}
	for i, a := range all {
		for j, b := range all {
			check.Equal(t, a.Compare(b), cmp.Compare(i, j), "%v and %v", a, b)
		}
	}
	check.Equal(t, all[0].String(), "m of a on x")
}
