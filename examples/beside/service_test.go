package beside

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zeroae/zae-limiter-go/internal/loadcheck"
	"github.com/zeroae/zae-limiter-go/limiter"
	"github.com/zeroae/zae-limiter-go/limitertable"
	"github.com/zeroae/zae-limiter-go/limitertest"
	"github.com/zeroae/zae-limiter-go/test/localstack/engine"
)

// fixedWindow is the design of envoyproxy/ratelimit: a counter in a Redis for each descriptor and second, to
// which every hit is added, granted or not.
type fixedWindow struct {
	ratelimit.UnimplementedRateLimitServiceServer
	redis *redis.Client
	now   func() time.Time
}

func (w fixedWindow) ShouldRateLimit(ctx context.Context, r *ratelimit.RateLimitRequest) (
	*ratelimit.RateLimitResponse, error) {
	pipe := w.redis.Pipeline()
	var counts []*redis.IntCmd
	for _, d := range r.GetDescriptors() {
		key := r.GetDomain()
		for _, e := range d.GetEntries() {
			key += "_" + e.GetKey() + "_" + e.GetValue()
		}
		key += "_" + strconv.FormatInt(w.now().Unix(), 10)
		counts = append(counts, pipe.IncrBy(ctx, key, max(1, int64(r.GetHitsAddend()))))
		pipe.Expire(ctx, key, time.Second)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	out := &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK}
	for i, c := range counts {
		limit := rates[r.GetDescriptors()[i].GetEntries()[0].GetKey()]
		s := &ratelimit.RateLimitResponse_DescriptorStatus{Code: ratelimit.RateLimitResponse_OK,
			LimitRemaining: uint32(max(0, limit-c.Val()))}
		if c.Val() > limit {
			s.Code, out.OverallCode = ratelimit.RateLimitResponse_OVER_LIMIT, ratelimit.RateLimitResponse_OVER_LIMIT
		}
		out.Statuses = append(out.Statuses, s)
	}
	return out, nil
}

// rates are the limits of a second, by key.
var rates = map[string]int64{"hundred": 100, "much": 1_000_000}

// request asks for one hit.
func request(key, value string) *ratelimit.RateLimitRequest {
	return &ratelimit.RateLimitRequest{Domain: "edge", Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: value}}}}}
}

// asker asks for one hit, and reports whether it is granted.
type asker func(ctx context.Context, key, value string) (bool, error)

func byService(ask func(context.Context, *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error)) asker {
	return func(ctx context.Context, key, value string) (bool, error) {
		out, err := ask(ctx, request(key, value))
		return out.GetOverallCode() == ratelimit.RateLimitResponse_OK, err
	}
}

func byLimiter(l *limiter.Limiter) asker {
	return func(ctx context.Context, key, value string) (bool, error) {
		err := l.Allow(ctx, value, limiter.PerSecond(key, rates[key]))
		if errors.Is(err, limiter.ErrLimited) {
			return false, nil
		}
		return err == nil, err
	}
}

func byRedisRate(l *redis_rate.Limiter) asker {
	return func(ctx context.Context, key, value string) (bool, error) {
		out, err := l.Allow(ctx, key+"_"+value, redis_rate.PerSecond(int(rates[key])))
		return err == nil && out.Allowed == 1, err
	}
}

// excess returns how many tokens more than 100 a second allow were granted in the worst window.
func excess(tb testing.TB, grants []loadcheck.Event) int64 {
	tb.Helper()
	const forever = 1 << 48
	always := []loadcheck.Rule{{To: forever, Capacity: 100, Amount: 100, Period: 1000}}
	worst, err := loadcheck.Worst(loadcheck.Bound{Rules: always}, grants)
	if err != nil {
		tb.Fatal(err)
	}
	return worst.Over()
}

// Around the edge of a window, a fixed window grants twice the limit. Ours grants it once, as GCRA does.
func TestTheEdgeOfAWindow(t *testing.T) {
	table, valkey := limitertest.New(t), miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: valkey.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	table.Advance(time.Second - time.Duration(table.Now().Nanosecond()) - 10*time.Millisecond)
	contestants := map[string]asker{"ours": byLimiter(table.Limiter(nil)),
		"ahead":  byLimiter(table.Limiter(&limiter.Options{Ahead: 500 * time.Millisecond, Namespace: "ahead"})),
		"window": byService(fixedWindow{redis: client, now: table.Now}.ShouldRateLimit),
		"gcra":   byRedisRate(redis_rate.NewLimiter(client))}
	grants := map[string][]loadcheck.Event{}
	for range 2 {
		valkey.SetTime(table.Now())
		at := table.Now().UnixMilli()
		for name, ask := range contestants {
			for range 300 {
				granted, err := ask(t.Context(), "hundred", "acme")
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if granted {
					grants[name] = append(grants[name], loadcheck.Event{Sent: at, Answered: at, Tokens: 1})
				}
			}
		}
		table.Advance(20 * time.Millisecond)
	}
	for name, want := range map[string]int64{"ours": 0, "ahead": 0, "window": 98, "gcra": 0} {
		if got := excess(t, grants[name]); got != want || len(grants[name]) == 0 {
			t.Errorf("%s: %d of %d grants over, want %d", name, got, len(grants[name]), want)
		}
	}
}

// workers is how many processes of one host ask.
const workers = 64

// contestant is one way to decide for 64 processes.
type contestant struct {
	ask    [workers]asker
	writes func() float64 // so far
}

// BenchmarkService is what a decision takes of 64 processes of one host: by one service of ours, with a limiter
// in each, by a service of fixed windows, by redis_rate in each, by four nodes of gubernator, and by a read and a
// conditional put in each. Ours and the last are on an emulator of DynamoDB, the fixed windows and redis_rate on the
// Valkey or Redis of this machine. They ask about one key as fast as they can ("busy"), then a thousand times a
// second ("calm"), then about a thousand keys. At last they ask five times as often as a limit allows for half a
// minute, and around the edges of seconds, and what was granted is checked.
func BenchmarkService(b *testing.B) {
	b.Run("serve", func(b *testing.B) { contest(b, ourService(b)) })
	b.Run("limiters", func(b *testing.B) { contest(b, ourLimiters(b, 0)) })
	b.Run("ahead", func(b *testing.B) { contest(b, ourLimiters(b, 500*time.Millisecond)) })
	b.Run("fixed_window", func(b *testing.B) {
		client := startRedis(b)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		server := grpc.NewServer()
		ratelimit.RegisterRateLimitServiceServer(server, fixedWindow{redis: client, now: time.Now})
		go func() { _ = server.Serve(listener) }()
		b.Cleanup(server.Stop)
		contest(b, contestant{dialed(b, listener.Addr().String()), written(b, client)})
	})
	b.Run("redis_rate", func(b *testing.B) {
		client := startRedis(b)
		c := contestant{writes: written(b, client)}
		for i := range c.ask {
			own := redis.NewClient(client.Options())
			b.Cleanup(func() { _ = own.Close() })
			c.ask[i] = byRedisRate(redis_rate.NewLimiter(own))
		}
		contest(b, c)
	})
	b.Run("gubernator", func(b *testing.B) { contest(b, gubernator(b, 0)) })
	b.Run("gubernator_global", func(b *testing.B) { contest(b, gubernator(b, behaviorGlobal)) })
	b.Run("read_then_put", func(b *testing.B) { contest(b, readThenPut(b)) })
}

func contest(b *testing.B, c contestant) {
	for range b.N {
		for _, load := range []struct {
			name       string
			keys, each int
			pause      time.Duration
		}{{"busy", 1, 200, 0}, {"calm", 1, 100, workers * time.Millisecond}, {"keys", 1000, 50, 0}} {
			var granted atomic.Int64
			ask := func(worker int) error {
				ok, err := c.ask[worker](b.Context(), "much", fmt.Sprint(load.name, rand.IntN(load.keys)))
				if ok {
					granted.Add(1)
				}
				return err
			}
			together(b, workers, 10, 0, ask) // connections are open, and buckets there
			granted.Store(0)
			before, begin := c.writes(), time.Now()
			took := together(b, workers, load.each, load.pause, ask)
			n := float64(len(took))
			b.ReportMetric(n/time.Since(begin).Seconds(), load.name+"-per-s")
			b.ReportMetric((c.writes()-before)/n, load.name+"-writes")
			b.ReportMetric(float64(granted.Load())/n, load.name+"-granted")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, load.name+"-p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, load.name+"-p99-ms")
		}
		before := c.writes()
		asked, grants := collect(b, c, "full", time.Now().Add(fullFor), workers*time.Second/500)
		b.ReportMetric(float64(len(grants))/float64(100+100*fullFor/time.Second), "full-delivered")
		b.ReportMetric(float64(excess(b, grants)), "full-excess")
		b.ReportMetric((c.writes()-before)/float64(asked), "full-writes")
		grants = nil
		for range 5 { // around the edges of seconds
			edge := time.Now().Truncate(time.Second).Add(3 * time.Second) // the bucket is full by then
			time.Sleep(time.Until(edge.Add(-40 * time.Millisecond)))
			_, more := collect(b, c, "edge", edge.Add(40*time.Millisecond), 0)
			grants = append(grants, more...)
		}
		b.ReportMetric(float64(len(grants)), "edge-grants")
		b.ReportMetric(float64(excess(b, grants)), "edge-excess")
	}
	b.ReportMetric(0, "ns/op")
}

// fullFor is how long the limit of a hundred a second is asked for more than it allows.
const fullFor = 30 * time.Second

// collect asks for a hundred a second until an instant, with a pause between that is given in the mean, and returns
// how often, and what was granted.
func collect(b *testing.B, c contestant, key string, until time.Time, pause time.Duration) (asked int,
	grants []loadcheck.Event) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, ask := range c.ask {
		all.Go(func() {
			for {
				if pause > 0 {
					time.Sleep(time.Duration(rand.Int64N(2 * int64(pause))))
				}
				if time.Until(until) <= 0 {
					return
				}
				sent := time.Now().UnixMilli()
				granted, err := ask(b.Context(), "hundred", key)
				if err != nil {
					b.Error(err)
				}
				mu.Lock()
				if asked++; granted {
					grants = append(grants, loadcheck.Event{Sent: sent, Answered: time.Now().UnixMilli() + 1, Tokens: 1})
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return asked, grants
}

// ourLimiters are 64 limiters with a client each.
func ourLimiters(b *testing.B, ahead time.Duration) (c contestant) {
	e := table(b)
	var writes atomic.Int64
	for i := range c.ask {
		l, err := limiter.Open(b.Context(), e.DynamoDB(), "zae-limiter", &limiter.Options{Ahead: ahead,
			Timeout: time.Minute, Observe: func(_ context.Context, ev limiter.Event) { writes.Add(int64(ev.Writes)) }})
		if err != nil {
			b.Fatal(err)
		}
		c.ask[i] = byLimiter(l)
	}
	c.writes = func() float64 { return float64(writes.Load()) }
	return c
}

// ourService is one zae-limiter serve that 64 clients ask.
func ourService(b *testing.B) (c contestant) {
	e, rules := table(b), b.TempDir()
	text := "domain: edge\ndescriptors:\n"
	for key, rate := range rates {
		text += fmt.Sprintf("  - {key: %s, rate_limit: {unit: second, requests_per_unit: %d}}\n", key, rate)
	}
	if err := os.WriteFile(filepath.Join(rules, "edge.yaml"), []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	tool := filepath.Join(b.TempDir(), "zae-limiter")
	build := exec.Command("go", "build", "-o", tool, ".")
	build.Dir = filepath.Join(engine.Root(), "..", "..", "cmd", "zae-limiter")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(b.Context(), tool, "serve", "--config", rules, "--timeout", "1m", "--grpc", "127.0.0.1:0",
		"--http", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), e.Env()...)
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Wait() })
	at := map[string]string{}
	for lines := bufio.NewScanner(said); len(at) < 2; {
		if !lines.Scan() {
			b.Fatal("it does not serve")
		}
		name, address, _ := strings.Cut(lines.Text(), " on ")
		at[name] = address
	}
	c.ask = dialed(b, at["gRPC"])
	c.writes = func() float64 {
		resp, err := http.Get("http://" + at["HTTP"] + "/metrics")
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			b.Fatal(err)
		}
		return sum(b, `(?m)^zae_limiter_writes_total (.*)$`, string(text))
	}
	return c
}

// table is an emulator with a table.
func table(b *testing.B) *engine.Engine {
	e, err := engine.Start(b.Context(), engine.Dynoxide)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Stop)
	if _, err := limitertable.Create(b.Context(), e.DynamoDB(), "zae-limiter"); err != nil {
		b.Fatal(err)
	}
	if _, err := limiter.Open(b.Context(), e.DynamoDB(), "zae-limiter", &limiter.Options{Register: true}); err != nil {
		b.Fatal(err)
	}
	return e
}

// dialed are 64 connections to a service.
func dialed(b *testing.B, address string) (all [workers]asker) {
	for i := range all {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close() })
		client := ratelimit.NewRateLimitServiceClient(conn)
		all[i] = byService(func(ctx context.Context, r *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
			return client.ShouldRateLimit(ctx, r)
		})
	}
	return all
}

// written returns a function that counts the commands that have written to a Redis.
func written(b *testing.B, client *redis.Client) func() float64 {
	return func() float64 {
		text, err := client.Info(b.Context(), "commandstats").Result()
		if err != nil {
			b.Fatal(err)
		}
		return sum(b, `(?m)^cmdstat_(?:incrby|expire|set):calls=(\d+)`, text)
	}
}

// sum adds up the numbers that a pattern finds.
func sum(b *testing.B, pattern, text string) (total float64) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		total += n
	}
	return total
}
