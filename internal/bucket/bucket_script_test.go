package bucket_test

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/check"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected output of the scripts in testdata/take")

// A script in testdata/take has a comment that says why, then a block of commands,
// ---- and their output. Run with -rewrite to record new output, and read the diff
// before committing it.
//
//	limit NAME capacity=N refill=N every=DUR   add a limit; the bucket is full when first used
//	at DUR take NAME=N ...                     take tokens, or be denied and change nothing
//	at DUR adjust NAME=N ...                   settle: positive takes more, negative gives back
//	at DUR show                                the levels, refilled to then, writing nothing
//	at DUR refill                              write the refill, as the aggregator does
//	at DUR split                               double the current shard; the sibling is kept
//	at DUR adopt NAME capacity=N ...           put a changed or new limit in force
//	at DUR expire                              the item is deleted, and created again when needed
//	shard K                                    the commands that follow are for shard K
//
// After each denial the request must succeed at the advised instant, and not one
// millisecond earlier.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/take/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts found in testdata/take (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	check.Must(t, err)
	var out, commands, want strings.Builder
	p := &player{t: t, file: file, shards: map[int]*bucket.State{}}
	expecting := false
	finish := func() {
		if commands.Len() == 0 {
			return
		}
		got := p.run(commands.String())
		if got != want.String() && !*rewrite {
			t.Errorf("%s:%d:\n%sgot:\n%swant:\n%s", file, p.line, commands.String(), got, want.String())
		}
		out.WriteString(commands.String() + "----\n" + got)
		commands.Reset()
		want.Reset()
		expecting = false
	}
	sc := bufio.NewScanner(strings.NewReader(string(text)))
	for sc.Scan() {
		p.line++
		line := sc.Text()
		switch {
		case strings.HasPrefix(line, "#") && commands.Len() == 0, strings.TrimSpace(line) == "":
			finish()
			out.WriteString(line + "\n")
		case line == "----":
			expecting = true
		case expecting:
			want.WriteString(line + "\n")
		default:
			commands.WriteString(line + "\n")
		}
	}
	finish()
	if *rewrite {
		check.Must(t, os.WriteFile(file, []byte(out.String()), 0o644))
	}
}

// player keeps the shards of the bucket of one script.
type player struct {
	t      *testing.T
	file   string
	line   int
	limits []bucket.Limit
	shards map[int]*bucket.State
	shard  int
}

func (p *player) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s:%d: %s", p.file, p.line, fmt.Sprintf(format, args...))
}

func (p *player) run(commands string) string {
	var out strings.Builder
	for line := range strings.Lines(commands) {
		f := strings.Fields(line)
		switch f[0] {
		case "limit":
			p.limits = append(p.limits, p.limit(f[1:]))
		case "shard":
			p.shard = p.number(f[1])
		case "at":
			at, err := time.ParseDuration(f[1])
			if err != nil {
				p.fail("%v", err)
			}
			out.WriteString(p.command(at.Milliseconds(), f[2], f[3:]) + "\n")
		default:
			p.fail("unknown command %q", f[0])
		}
	}
	return out.String()
}

func (p *player) command(now int64, verb string, args []string) string {
	s, ok := p.shards[p.shard]
	if !ok {
		n := bucket.New(p.limits, 0, 1, now)
		s = &n
		p.shards[p.shard] = s
	}
	switch verb {
	case "take":
		return p.take(s, now, p.costs(*s, args))
	case "adjust":
		*s = s.Take(p.costs(*s, args))
		return "adjusted" + p.levels(*s, now)
	case "show":
		return strings.TrimSpace(p.levels(*s, now))
	case "refill":
		*s = s.At(now)
		return "refilled" + p.levels(*s, now) + rests(*s)
	case "split":
		keep, moved := s.Split()
		*s, p.shards[moved.Shard] = keep, &moved
		return fmt.Sprintf("shard %d of %d:%s\nshard %d of %d:%s", keep.Shard, keep.Shards, p.levels(keep, now),
			moved.Shard, moved.Shards, p.levels(moved, now))
	case "adopt":
		next, changed := s.At(now).Adopt(p.limit(args))
		if !changed {
			return "unchanged"
		}
		*s = next
		return "adopted" + p.levels(*s, now)
	case "expire":
		delete(p.shards, p.shard)
		return "gone"
	}
	p.fail("unknown command %q", verb)
	return ""
}

func (p *player) take(s *bucket.State, now int64, costs []int64) string {
	v := s.Decide(costs, now)
	if v.Granted {
		*s = s.At(now).Take(costs)
		return "granted" + p.levels(*s, now)
	}
	who := s.Slots[v.Slot].Name
	if v.At == bucket.Never {
		return fmt.Sprintf("denied by %s for ever%s", who, p.levels(*s, now))
	}
	obey(p.t, *s, costs, now, v)
	return fmt.Sprintf("denied by %s  retry %s%s", who, time.Duration(v.At-now)*time.Millisecond, p.levels(*s, now))
}

// obey follows the advice in a denial: the request succeeds at that instant, and not one
// millisecond earlier.
func obey(t *testing.T, s bucket.State, costs []int64, now int64, v bucket.Verdict) {
	t.Helper()
	if v.At <= now {
		t.Fatalf("denied at %d until %d, want a later instant", now, v.At)
	}
	if again := s.Decide(costs, v.At); !again.Granted {
		t.Fatalf("denied at %d until %d, but denied then too, until %d: %s", now, v.At, again.At, s)
	}
	if v.At-1 >= now && s.Decide(costs, v.At-1).Granted {
		t.Fatalf("denied at %d until %d, but granted a millisecond earlier: %s", now, v.At, s)
	}
}

func (p *player) levels(s bucket.State, now int64) string {
	var b strings.Builder
	at := s.At(now)
	for i, sl := range at.Slots {
		if sl.Name != bucket.WCU {
			fmt.Fprintf(&b, "  %s %s/%s", sl.Name, bucket.Tokens(sl.Tokens), bucket.Tokens(at.Rate(i).Capacity))
		}
	}
	return b.String()
}

func rests(s bucket.State) string {
	var b strings.Builder
	for _, sl := range s.Slots {
		if sl.Rest != 0 && sl.Name != bucket.WCU {
			fmt.Fprintf(&b, "  rest %s %d/%d", sl.Name, sl.Rest, sl.Period)
		}
	}
	return b.String()
}

func (p *player) limit(args []string) bucket.Limit {
	l := bucket.Limit{Name: args[0]}
	for _, a := range args[1:] {
		key, value, _ := strings.Cut(a, "=")
		switch key {
		case "capacity":
			l.Capacity = int64(p.number(value)) * bucket.Milli
		case "refill":
			l.Amount = int64(p.number(value)) * bucket.Milli
		case "every":
			d, err := time.ParseDuration(value)
			if err != nil {
				p.fail("%v", err)
			}
			l.Period = d.Milliseconds()
		default:
			p.fail("unknown argument %q", a)
		}
	}
	return l
}

func (p *player) costs(s bucket.State, args []string) []int64 {
	out := make([]int64, len(s.Slots))
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		i := s.Index(name)
		if i < 0 {
			p.fail("no limit %q", name)
		}
		out[i] = int64(p.number(value)) * bucket.Milli
	}
	return out
}

func (p *player) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		p.fail("%v", err)
	}
	return n
}
