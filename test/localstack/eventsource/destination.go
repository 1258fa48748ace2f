package eventsource

import "slices"

// GivenUp is a batch, or a part of one, that was given up.
type GivenUp struct {
	Condition string // retriesExhausted or recordAgeExceeded, as the invocation record of AWS has it
	Records   []Record
	Invokes   int // of the batch

	// Payload is the event, as an S3 destination gets it; destinations of other types get none.
	Payload string
}

// giveUp keeps what a lane gives up, and returns how many records from the stream that is. The lock is held.
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

// GivenUp returns everything that was given up so far.
func (m *Mapping) GivenUp() []GivenUp {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.givenUp)
}
