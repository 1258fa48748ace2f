package eventsource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// maxEnvelope is more than a tumbling window adds to an event besides its state.
const maxEnvelope = 1000

// maxState is the greatest state of a tumbling window, in bytes.
const maxState = 1 << 20

// tumblingWindow is the open window of a lane. Its zero value means none.
type tumblingWindow struct {
	start int64 // epoch ms
	open  bool
	state json.RawMessage // the function's last result, nil at first
	early bool            // the state grew too large: the window ends now
}

// windowOf returns the start of a record's window.
func (l *lane) windowOf(r Record) int64 {
	return r.Created - r.Created%l.settings.Tumbling.Milliseconds()
}

// final forms the last invocation of the open window when it is due: a record of a later window
// waits, the window is over, or its state is too large. until is when to call it again; 0 is when a
// record arrives.
func (l *lane) final(now int64) (until int64, due bool) {
	if !l.window.open {
		return 0, false
	}
	end := l.window.start + l.settings.Tumbling.Milliseconds()
	later := len(l.waiting) > 0 && l.windowOf(l.waiting[0].record) != l.window.start
	// Records reach the mapping later than they are created, so wait a little longer than the end.
	grace := end + l.settings.Window.Milliseconds() + 1000
	switch {
	case l.window.early || later:
	case len(l.waiting) > 0:
		return 0, false
	case now < grace:
		return grace, false
	}
	l.work = append(l.work, &work{final: true, started: true})
	return 0, true
}

// enter opens the window of a batch that is about to be delivered.
func (l *lane) enter(w *work) {
	if l.settings.Tumbling > 0 && !w.final && !w.copy && !l.window.open {
		l.window = tumblingWindow{start: l.windowOf(w.records[0]), open: true}
	}
}

// payload returns the event of an invocation: with a tumbling window, it includes the window and
// its state. A copy has the current state.
func (l *lane) payload(w *work, streamARN, shard string) []byte {
	event := Payload(w.records)
	if l.settings.Tumbling == 0 {
		return event
	}
	state := l.window.state
	if state == nil {
		state = json.RawMessage("{}")
	}
	instant := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	return fmt.Appendf(nil, `{"window":{"start":%q,"end":%q},"state":%s,"shardId":%q,"eventSourceARN":%q,`+
		`"isFinalInvokeForWindow":%t,"isWindowTerminatedEarly":%t,%s`,
		instant(l.window.start), instant(l.window.start+l.settings.Tumbling.Milliseconds()), state, shard, streamARN,
		w.final, w.final && l.window.early, event[1:])
}

// stateOf returns the state in an answer; ok is false if it has none, which fails the invocation.
func stateOf(answer []byte) (state json.RawMessage, ok bool) {
	var doc struct {
		State json.RawMessage `json:"state"`
	}
	if json.Unmarshal(answer, &doc) != nil || !bytes.HasPrefix(bytes.TrimSpace(doc.State), []byte("{")) {
		return nil, false
	}
	return doc.State, true
}

// carry adopts the state of an answer. AWS does not document the state after a partly failed batch;
// Settings.PartialState decides. If a state is too large, the previous one is kept, and the window
// ends.
func (l *lane) carry(w *work, o outcome, state json.RawMessage) {
	switch {
	case l.settings.Tumbling == 0 || w.copy || o.whole:
	case w.final:
		l.window = tumblingWindow{}
	case o.failed && !l.settings.PartialState:
	case len(state) > maxState:
		l.window.early = true
	default:
		l.window.state = state
	}
}

// Windows returns how many tumbling windows are open.
func (m *Mapping) Windows() (open int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.lanes {
		if w.lane.window.open {
			open++
		}
	}
	return open
}

// inherit takes over the windows that another mapping left open.
func (m *Mapping) inherit(old *Mapping) {
	old.mu.Lock()
	defer old.mu.Unlock()
	for i, w := range m.lanes {
		w.lane.window = old.lanes[i].lane.window
	}
}
