package eventsource

import "slices"

// GivenUp is a batch, or a part of one, that was given up.
type GivenUp struct {
	Condition string // retriesExhausted or recordAgeExceeded, as in AWS's invocation record
	Records   []Record
	Invokes   int // of the batch

	// Payload is the event for an S3 destination; destinations of other types get none.
	Payload string
}

// giveUp records what a lane gives up, and returns how many of its records came from the stream.
// The lock is held.
func (m *Mapping) giveUp(all []GivenUp) (records int) {
	for _, g := range all {
		for _, r := range g.Records {
			if !r.injected {
				records++
			}
		}
		if m.cfg.Settings.Destination == DestinationS3 {
			g.Payload = string(Payload(g.Records))
		}
		m.givenUp = append(m.givenUp, g)
	}
	m.stats.Dropped += records
	return records
}

// GivenUp returns all batches given up so far.
func (m *Mapping) GivenUp() []GivenUp {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.givenUp)
}
