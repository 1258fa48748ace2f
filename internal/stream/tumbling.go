package stream

import (
	"bytes"
	"encoding/json"
	"time"
)

// windowPart reads a member of the payload other than the records: a tumbling window adds some. A
// member in an undocumented form counts as absent, and does not affect the records.
func (d *decoder) windowPart(name []byte) {
	w := &d.out.Tumbling
	switch string(name) {
	case "window":
		isObject := d.s.peek() == '{'
		start := d.s.pos
		if d.s.skip(); isObject {
			w.On, w.Length = true, length(d.s.data[start:d.s.pos])
		}
	case "state":
		isObject := d.s.peek() == '{'
		start := d.s.pos
		if d.s.skip(); isObject {
			w.State = d.s.data[start:d.s.pos]
		}
	case "isFinalInvokeForWindow", "isWindowTerminatedEarly":
		start := d.s.pos
		d.s.skip()
		w.Final = w.Final || string(bytes.TrimSpace(d.s.data[start:d.s.pos])) == "true"
	default:
		d.s.skip()
	}
}

// length returns the length of a window in milliseconds; 0 if its bounds cannot be read.
func length(window []byte) int64 {
	var w map[string]time.Time
	if err := json.Unmarshal(window, &w); err != nil {
		return 0
	}
	return max(0, w["end"].Sub(w["start"]).Milliseconds())
}
