package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
	"github.com/zeroae/zae-limiter-go/internal/item"
	"github.com/zeroae/zae-limiter-go/internal/item/itemtest"
	"github.com/zeroae/zae-limiter-go/internal/layout"
	"github.com/zeroae/zae-limiter-go/internal/ledger"
	"github.com/zeroae/zae-limiter-go/internal/memdynamo"
	"github.com/zeroae/zae-limiter-go/internal/stream/streamtest"
	"github.com/zeroae/zae-limiter-go/internal/usage"
	"github.com/zeroae/zae-limiter-go/streams"
)

var usageWindows = []usage.Window{usage.Hourly, usage.Daily}

// usageName names what a snapshot counts of a limit.
func usageName(entity, limit, part string) string { return entity + " " + limit + " " + part }

// mapping brings the changes of the table to the aggregator as Lambda's event source
// mapping does: records of one item in their order, whole batches again after
// failures, and sometimes after success.
type mapping struct {
	w        *world
	network  *network
	agg      *streams.Aggregator
	rng      *rand.Rand
	lanes    []*lane
	tumbling bool
	images   map[int64][]byte // by the change that left them
	prior    map[int64]int64  // by change: the one of the same item before it
	latest   map[string]int64 // by partition key: the last change
	seq      int64            // the last change that was given to a lane
	stop     chan struct{}
	stopped  chan struct{}
}

// lane is one shard of the stream.
type lane struct {
	records []memdynamo.Change
	lost    int // of the records, the first ones, which nobody has seen
	next    int // the first one that is not done
	state   []byte
}

func newMapping(w *world) *mapping {
	m := &mapping{
		w: w, network: &network{w: w, id: 1000}, rng: rand.New(rand.NewPCG(w.seed, 5)),
		tumbling: w.rng.IntN(2) == 0, stop: make(chan struct{}), stopped: make(chan struct{}),
		images: map[int64][]byte{}, prior: map[int64]int64{}, latest: map[string]int64{},
	}
	for range 1 + w.rng.IntN(2) {
		m.lanes = append(m.lanes, &lane{})
	}
	if w.rng.IntN(3) == 0 { // nobody reads it: what clients do for themselves must do
		close(m.stopped)
		return m
	}
	m.network.faulty.Store(w.faulty)
	var err error
	m.agg, err = streams.New(streams.Options{
		DynamoDB: m.network, Table: "table", MaxShards: maxShards, Concurrency: 2, MergeAfter: time.Second,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(m.stopped)
		if m.rng.IntN(3) == 0 {
			m.lose()
		}
		for {
			pause := time.NewTimer(time.Duration(m.rng.Int64N(int64(4 * time.Second))))
			select {
			case <-pause.C:
				for _, l := range m.lanes {
					m.deliver(l)
				}
			case <-m.stop:
				pause.Stop()
				return
			}
		}
	}()
	return m
}

// take gives new changes to the lanes.
func (m *mapping) take() {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	for _, c := range m.w.db.Changes(m.seq) {
		m.seq = c.Seq
		if c.Key.SK == layout.SKBucketState { // what the mapping's filter lets pass
			l := m.lanes[hash(c.Key.PK)%uint64(len(m.lanes))]
			l.records = append(l.records, c)
			m.prior[c.Seq] = m.latest[c.Key.PK]
			m.latest[c.Key.PK] = c.Seq
		}
	}
}

// lose waits a while and gives up all records until then: those of the creation of
// buckets are among them.
func (m *mapping) lose() {
	pause := time.NewTimer(time.Duration(m.rng.Int64N(int64(30 * time.Second))))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-m.stop:
	}
	m.take()
	for _, l := range m.lanes {
		l.lost, l.next = len(l.records), len(l.records)
		m.w.mu.Lock()
		m.w.stats.lost += l.lost
		m.w.mu.Unlock()
	}
}

// forget takes what only lost records have shown out of what the counters have grown by
// in their windows. What the next record of a shard shows to have been consumed before
// is expected in the window of its creation, if the item says when that was. The world's
// lock is held.
func (m *mapping) forget() {
	for _, l := range m.lanes {
		began := map[string]bool{}
		for i, c := range l.records {
			_, entity, _, _, _ := layout.ParseBucketPK(c.Key.PK)
			if i < l.lost {
				began[c.Key.PK] = false
				m.count(entity, c.New, c.Old, c.CreatedAt, -1)
				continue
			}
			if done, lost := began[c.Key.PK]; done || !lost || c.Old != nil && !consumes(c) {
				continue
			}
			began[c.Key.PK] = true
			if c.Old == nil {
				continue // another life
			}
			const hour, near = 3_600_000, 10_000
			born := number(c.Old["bn"]) * 1000
			if at := born % hour; at >= near && at+1000 <= hour-near {
				m.count(entity, c.Old, nil, born, +1)
				m.w.stats.begun++
			}
		}
	}
}

// consumes reports whether a change of an item that was there is one of its counters, that of denials
// included, or of its generation, or drops a limit, or is its end: others say nothing about usage,
// and are not looked at.
func consumes(c memdynamo.Change) bool {
	if number(c.Old["gn"]) != number(c.New["gn"]) || number(c.Old["dn"]) != number(c.New["dn"]) {
		return true
	}
	for attr, v := range c.Old {
		counter := strings.HasSuffix(attr, "_tc") && attr != "b_wcu_tc"
		if is := c.New[attr]; counter && (is == nil || number(v) != number(is)) {
			return true
		}
	}
	return false
}

// count adds what the counters of an item have grown by since an older image, so many
// times, to what is expected of the windows of an instant.
func (m *mapping) count(entity string, it, old item.Item, ms, times int64) {
	for attr, v := range it {
		limit, ok := strings.CutSuffix(strings.TrimPrefix(attr, "b_"), "_tc")
		if !ok || limit == bucket.WCU {
			continue
		}
		for _, window := range usageWindows {
			of := usageName(entity, limit, window.Part(window.Start(ms)))
			m.w.judge.counted[of] += times * (number(v) - number(old[attr]))
		}
	}
}

// deliver lets the aggregator handle a batch.
func (m *mapping) deliver(l *lane) {
	m.take()
	batch := l.records[l.next:min(len(l.records), l.next+1+m.rng.IntN(60))]
	if len(batch) == 0 {
		return
	}
	resumes, ok := m.invoke(l, batch, false)
	again := !ok || m.w.faulty > 0 && m.rng.IntN(6) == 0
	m.w.mu.Lock()
	if m.w.stats.batches++; again {
		m.w.stats.redelivered++
	}
	m.w.mu.Unlock()
	if again {
		return // nobody heard the answer: all of it again
	}
	for _, c := range batch {
		if resumes != "" && c.SequenceNumber() >= resumes {
			return
		}
		l.next++
	}
}

// invoke handles one payload. It returns where to resume, empty for nowhere, and
// whether there was an answer. Without one, and without a window, the batch is as
// it was before.
func (m *mapping) invoke(l *lane, batch []memdynamo.Change, final bool) (resume string, ok bool) {
	records := make([]json.RawMessage, len(batch))
	for i, c := range batch {
		records[i] = m.record(c)
	}
	payload := streamtest.PayloadOf(records...)
	if m.tumbling {
		state := l.state
		if state == nil {
			state = []byte("{}")
		}
		payload = fmt.Appendf(nil, `{"window":{"start":"2023-11-14T22:13:00Z","end":"2023-11-14T22:14:00Z"},`+
			`"state":%s,"shardId":"s","eventSourceARN":"arn","isFinalInvokeForWindow":%t,`+
			`"isWindowTerminatedEarly":false,%s`, state, final, payload[1:])
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := m.agg.Invoke(ctx, payload)
	var answer struct {
		BatchItemFailures []struct {
			ItemIdentifier string `json:"itemIdentifier"`
		} `json:"batchItemFailures"`
		State json.RawMessage `json:"state"`
	}
	if err == nil {
		err = json.Unmarshal(out, &answer)
	}
	m.w.mu.Lock()
	m.w.tracef("aggregator: %d records: %s %v", len(batch), out, err)
	m.w.mu.Unlock()
	if err != nil {
		return "", false
	}
	if m.tumbling {
		l.state = answer.State
	}
	if len(answer.BatchItemFailures) > 0 {
		return answer.BatchItemFailures[0].ItemIdentifier, true
	}
	return "", true
}

// record is streamtest's, made once for every image: what is new in one record of an
// item is old in the next.
func (m *mapping) record(c memdynamo.Change) json.RawMessage {
	name := "MODIFY"
	switch {
	case c.Old == nil:
		name = "INSERT"
	case c.New == nil:
		name = "REMOVE"
	}
	out := fmt.Appendf(nil, `{"eventID":"1","eventName":"%s","eventVersion":"1.1","eventSource":"aws:dynamodb",`+
		`"awsRegion":"us-east-1","eventSourceARN":"arn:aws:dynamodb:us-east-1:123456789012:table/limits/stream/2024",`+
		`"dynamodb":{"ApproximateCreationDateTime":%d.%03d,"SequenceNumber":"%s","SizeBytes":1000,`+
		`"StreamViewType":"NEW_AND_OLD_IMAGES","Keys":{"PK":{"S":"%s"},"SK":{"S":"%s"}}`,
		name, c.CreatedAt/1000, c.CreatedAt%1000, c.SequenceNumber(), c.Key.PK, c.Key.SK)
	if c.New != nil {
		out = append(append(out, `,"NewImage":`...), m.image(c.Seq, c.New)...)
	}
	if c.Old != nil {
		out = append(append(out, `,"OldImage":`...), m.image(m.before(c), c.Old)...)
	}
	return append(out, "}}"...)
}

// image returns the JSON of the image that a change has left.
func (m *mapping) image(seq int64, it item.Item) []byte {
	if m.images[seq] == nil {
		m.images[seq] = itemtest.JSON(it)
	}
	return m.images[seq]
}

// before returns the number of the change that left the old image.
func (m *mapping) before(c memdynamo.Change) int64 { return m.prior[c.Seq] }

// finish delivers everything, ends the windows, and checks I5.
func (m *mapping) finish() {
	close(m.stop)
	if <-m.stopped; m.agg == nil {
		return
	}
	m.network.faulty.Store(0)
	for round := 0; ; round++ {
		left := 0
		for _, l := range m.lanes {
			m.deliver(l)
			left += len(l.records) - l.next
		}
		m.take()
		for _, l := range m.lanes {
			left += len(l.records) - l.next
		}
		if left == 0 {
			break
		}
		if round > 2000 {
			m.broken("I5: %d records are never done", left)
			return
		}
		time.Sleep(time.Second)
	}
	if m.tumbling {
		for range 2 { // longer windows are settled once the hour is over
			for _, l := range m.lanes {
				if _, ok := m.invoke(l, nil, true); !ok {
					m.broken("I5: a window does not end")
				}
				l.state = nil
			}
			time.Sleep(2 * time.Hour)
		}
		_, _ = m.invoke(m.lanes[0], nil, true)
	}
	m.compare()
}

func (m *mapping) broken(format string, args ...any) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.w.violated(format, args...)
}

// compare checks I5: the sum of the snapshots is the growth of the counters, per
// window.
func (m *mapping) compare() {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.forget()
	got := map[string]int64{}
	for _, it := range m.w.db.Items() {
		if k := item.KeyOf(it); len(k.SK) < 7 || k.SK[:7] != "#USAGE#" {
			continue
		}
		s, err := ledger.DecodeSnapshot(it)
		if err != nil {
			m.w.violated("I5: %v", err)
			continue
		}
		for limit, n := range s.Counts {
			got[usageName(s.Entity, limit, s.Part)] += n
		}
	}
	for k, n := range m.w.judge.counted {
		if entity, _, _ := strings.Cut(k, " "); m.w.deleted[entity] { // and its usage with it
			delete(got, k)
			continue
		}
		if got[k]*bucket.Milli != n {
			m.w.violated("I5: %s: snapshots say %d tokens, the counters have grown by %s", k, got[k], bucket.Tokens(n))
		}
		delete(got, k)
	}
	for k, n := range got {
		if n != 0 {
			m.w.violated("I5: %s: snapshots say %d tokens, the counters have not grown", k, n)
		}
	}
}
