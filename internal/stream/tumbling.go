package stream

import (
	"encoding/json"
	"time"
)

// windowPart reads a member of the payload other than the records: a tumbling window adds some. A
// member in an undocumented form counts as absent, and does not affect the records.
func (d *decoder) windowPart(name []byte) {
	w := &d.out.Tumbling
	switch string(name) {
	case "window":
		if value := d.s.value(); value[0] == '{' {
			w.On, w.Length = true, length(value)
		}
	case "state":
		if value := d.s.value(); value[0] == '{' {
			w.State = value
		}
	case "isFinalInvokeForWindow", "isWindowTerminatedEarly":
		w.Final = string(d.s.value()) == "true" || w.Final
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
