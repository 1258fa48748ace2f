package main

import (
	"math"
	"math/rand/v2"
	"time"
)

// The arrival processes of a load test.
const (
	poisson  = "poisson"  // independent callers
	constant = "constant" // evenly spaced
	bursts   = "bursts"   // all requests of a second at its beginning
)

var arrivalKinds = []string{poisson, constant, bursts}

// arrivals returns the arrival times of requests, counted from the start of the test, at a mean
// rate per second. The times never decrease, and end with the duration.
func arrivals(kind string, rate float64, over time.Duration, random *rand.Rand) []time.Duration {
	var out []time.Duration
	at := 0.0
	for n := 0; ; n++ {
		switch kind {
		case constant:
			at = float64(n) / rate
		case bursts:
			at = math.Floor(float64(n) / rate)
		default:
			at += random.ExpFloat64() / rate
		}
		if at >= over.Seconds() {
			return out
		}
		out = append(out, time.Duration(at*float64(time.Second)))
	}
}
