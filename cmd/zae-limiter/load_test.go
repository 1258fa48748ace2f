package main

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertest"
)

func TestArrivals(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	for _, kind := range arrivalKinds {
		at := arrivals(kind, 100, 60*time.Second, random)
		if n := float64(len(at)); math.Abs(n-6000) > 300 || !slices.IsSorted(at) || at[len(at)-1] >= time.Minute {
			t.Errorf("%s: %d arrivals within a minute, the last at %v", kind, len(at), at[len(at)-1])
		}
	}
	for _, kind := range arrivalKinds {
		for _, rate := range []float64{math.SmallestNonzeroFloat64, 1e-11} { // the second would come in 3000 years
			if at := arrivals(kind, rate, time.Second, random); len(at) > 1 {
				t.Errorf("%s at %v: %v", kind, rate, at)
			}
		}
	}
	check.Slices(t, arrivals(bursts, 3, 2*time.Second, random), []time.Duration{0, 0, 0, 1e9, 1e9, 1e9}, "bursts")
}

// A load test admits what the limits allow, on a table in memory and in virtual time.
func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shellOn(t, limitertest.NewLive(t))
		s.table.Admin("")
		s.says(3, "load --duration 1s --rate 5 --cost rpm=1", "no decision", "limits set stores some")
		s.says(1, "load --duration 1s --rate 0.1 --limit rpm=1", "none arrived within 1s")
		file := filepath.Join(t.TempDir(), "load.html")
		got := prints[map[string]any](s, "load --rate 40 --duration 1s --entities 2 --limit rph=5/h --arrivals constant "+
			"--report "+file)
		for name, want := range map[string]any{
			"offered": 40.0, "admitted": 10.0, "denied": 30.0, "failed": 0.0, "tokens_over": 0.0,
			"clocks_apart_ms": 0.0, "latency_ms": map[string]any{"p50": 0.0, "p95": 0.0, "p99": 0.0, "max": 0.0},
			"behind_arrival_ms": map[string]any{"p50": 0.0, "p95": 0.0, "p99": 0.0, "max": 0.0},
			"writes":            14.0, "denied_without_a_call": 26.0,
		} {
			check.Deep(t, got[name], want, name)
		}
		for i, name := range []string{"load-1", "load-2"} {
			e := got["entities"].([]any)[i].(map[string]any)
			if e["entity"] != name || e["granted"] != 5.0 || e["over"] != 0.0 ||
				e["admitted"].(float64) > e["allowed"].(float64) {
				t.Errorf("%s: %v", name, e)
			}
		}
		if page, err := os.ReadFile(file); err != nil || !strings.Contains(string(page), "Nothing was admitted above") {
			t.Errorf("%v\n%s", err, page)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o600 != 0o600 {
			t.Errorf("the report is not its owner's to read and write: %v, %v", info, err)
		}
		s.says(0, "load --limit rpm=1 --rate 1 --duration 1s --arrivals constant --report "+file, "the report is in "+file)
		began := s.table.Now()
		s.says(1, "load --limit rpm=1 --rate 1 --duration 1s --report "+file+"/none", "not a directory")
		if took := s.table.Now().Sub(began); took > 0 {
			t.Errorf("a report that cannot be written was noticed after %v", took)
		}
		time.AfterFunc(250*time.Millisecond, func() {
			check.NoError(t, errors.Join(os.Remove(file), os.Mkdir(file, 0o700)))
		})
		s.says(1, "load --limit rpm=1 --rate 2 --duration 1s --arrivals constant --report "+file, "offered 2",
			"is a directory")
		s.says(0, "load --limit jobs=1@in-flight/1m -r jobs --rate 20 --duration 1s --arrivals constant",
			"FIGURE VALUE", "admitted 20", "writes for each admitted 2.00")
		s.says(0, "load --limit rpm=1+soft -r tried --rate 20 --duration 1s --arrivals constant", "admitted 20")
		s.says(0, "limits set -y -r api rps=1000/s")
		s.says(0, "load -r api --cost rps=1 --duration 3s --rate 20 --processes 2",
			"62, poisson, all answered after 3.0 s", "admitted 62")
		s.says(0, "peek load-1 api", "rps")
		s.says(0, "limits set -y -r hot rps=1000/s+ahead:500ms", "ahead 500ms")
		got = prints[map[string]any](s, "load -r hot --cost rps=1 --duration 5s --rate 200 --processes 2")
		if n := got["writes_per_grant"].(float64); n > .2 || n == 0 || got["tokens_over"] != 0. || got["denied"] != 0. {
			t.Errorf("of what is taken ahead: %v", got)
		}
	})
}

// What is asked for is neither more nor less than the text says, and a number.
func TestLoadRefusesNumbersOutOfRange(t *testing.T) {
	good := loadPlan{Rate: 1, Duration: time.Minute, Processes: 1, Entities: 1, Arrivals: "poisson"}
	for _, c := range []struct {
		text string
		to   func(p *loadPlan, x float64)
		good []float64
		bad  []float64
	}{
		{"--rate", func(p *loadPlan, x float64) { p.Rate, p.Duration = x, time.Second }, []float64{0.1, 100_000},
			[]float64{0, -1, 100_001, math.NaN(), math.Inf(1)}},
		{"--duration", func(p *loadPlan, x float64) { p.Duration = time.Duration(x * float64(time.Second)) },
			[]float64{1, 86_400}, []float64{0, 0.9, 86_401}},
		{"5000040 requests: want", func(p *loadPlan, x float64) { p.Rate = x }, []float64{83_333}, []float64{83_334}},
		{"requests: want", func(p *loadPlan, x float64) { p.Rate, p.Duration = x, 100*time.Second }, []float64{50_000},
			[]float64{50_000.005}},
		{"--processes", func(p *loadPlan, x float64) { p.Processes = int(x) }, []float64{1, 256}, []float64{0, 257}},
		{"--entities", func(p *loadPlan, x float64) { p.Entities = int(x) }, []float64{1, 100_000}, []float64{0, 100_001}},
		{"--skew", func(p *loadPlan, x float64) { p.Skew = x }, []float64{0, 10}, []float64{-0.1, 10.1, math.NaN()}},
	} {
		for _, x := range slices.Concat(c.good, c.bad) {
			p := good
			c.to(&p, x)
			err := p.check(&cobra.Command{Use: "load"})
			if bad := !slices.Contains(c.good, x); (err != nil) != bad || bad && !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s %v: %v", c.text, x, err)
			}
		}
	}
}

// Where DynamoDB does not decide, load does not either, whatever the stored policy says.
func TestLoadWithoutDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shellOn(t, limitertest.NewLive(t))
		s.table.Admin("")
		s.run(0, "policy", "set", "-y", "--on-unavailable", "allow")
		const load = "load --limit rpm=100 --rate 5 --duration 1s --arrivals constant --processes 1"
		s.says(0, load, "admitted 5")
		opened := limitertest.Trouble{Operations: []string{"UpdateItem"}, Times: 1}
		s.table.Trouble(opened, limitertest.Trouble{Operations: opened.Operations, Err: limitertest.ErrDenied, Times: 1})
		s.says(1, load, "1 of 5 requests had no decision, the first: ", "no decision 1", "admitted 4")
		s.table.Trouble(limitertest.Trouble{Operations: []string{"UpdateItem"}, Err: limiter.ErrUnavailable})
		s.says(1, load, "5 of 5 requests had no decision, the first: ")
		hang := limitertest.Trouble{Operations: []string{"UpdateItem"}, Hang: true, Times: 1}
		s.table.Trouble(opened, hang)
		s.says(1, load+" --timeout 50s", "all answered after 50.0 s")
		s.table.Trouble(opened, hang)
		s.says(1, load, "all answered after 2.0 s")
		s.table.Trouble(limitertest.Trouble{Operations: []string{"BatchGetItem"}, Err: limiter.ErrUnavailable})
		s.says(1, load, "unavailable")
	})
}

// Tokens that somebody credits meanwhile look like too much, and the answer is no, also where a request
// had no decision.
func TestLoadThatAdmitsTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shellOn(t, limitertest.NewLive(t))
		s.table.Admin("")
		time.AfterFunc(2050*time.Millisecond, func() {
			other := shellOn(t, s.table)
			other.run(0, "credit", "load-1", "load", "rpd=2")
		})
		opened := limitertest.Trouble{Operations: []string{"UpdateItem"}, Times: 1}
		s.table.Trouble(opened, limitertest.Trouble{Operations: opened.Operations, Err: limitertest.ErrDenied, Times: 1})
		s.says(3, "load --limit rpd=5/d --rate 2 --duration 30s --arrivals constant --processes 1", "admitted 7",
			"no decision 1", "admitted above what the limits allow: 2 tokens")
	})
}

// Requests are of the namespace, and their clock is that of the table.
func TestWhereLoadGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShell(t)
		s.run(0, "namespace", "register", "prod")
		s.says(0, "load -n prod --limit rpm=10 --rate 4 --duration 1s --arrivals constant", "admitted 4",
			"clocks apart at most 0 ms")
		s.says(0, "peek -n prod load-1 load", "6", "bucket")
		s.says(3, "peek load-1 load")
	})
}
