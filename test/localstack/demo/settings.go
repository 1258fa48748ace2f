package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

// Names of the environment variables the demo reads, besides the SDK's.
const (
	envTrace   = "TRACE"
	envSpeedup = "SPEEDUP"
)

// maxSpeedup bounds SPEEDUP: beyond it a day of trace fits into a second.
const maxSpeedup = 100_000

// settings are the caller's choices. The zero value plays the generated workload.
type settings struct {
	trace   string  // CSV file to replay; empty: generate
	speedup float64 // how much faster than recorded; 0: chosen to fit
}

// settingsFrom reads the settings through getenv. The error names every
// variable that is not acceptable.
func settingsFrom(getenv func(string) string) (settings, error) {
	s := settings{trace: getenv(envTrace)}
	var problems []error
	if s.trace != "" {
		if info, err := os.Stat(s.trace); err != nil {
			problems = append(problems, fmt.Errorf("%s is %q: want a readable CSV file: %w", envTrace, s.trace, err))
		} else if !info.Mode().IsRegular() {
			problems = append(problems, fmt.Errorf("%s is %q: want a CSV file, this is none", envTrace, s.trace))
		}
	}
	if v := getenv(envSpeedup); v != "" {
		n, err := strconv.ParseFloat(v, 64)
		switch {
		case err != nil || !(n > 0 && n <= maxSpeedup):
			problems = append(problems, fmt.Errorf("%s is %q: want a number above 0, at most %d", envSpeedup, v, maxSpeedup))
		case s.trace == "":
			problems = append(problems, fmt.Errorf("%s is %q, but %s is not set: want both, or neither", envSpeedup, v,
				envTrace))
		}
		s.speedup = n
	}
	return s, errors.Join(problems...)
}

// workload is the requests to play and a sentence about them.
func workload(set settings) ([]request, string, error) {
	if set.trace == "" {
		r := generate()
		return r, fmt.Sprintf("%d generated requests in %v, seed %d", len(r), playTime, seed), nil
	}
	rows, err := readTrace(set.trace)
	if err != nil {
		return nil, "", err
	}
	r, err := replay(rows, set.speedup)
	return r.requests, fmt.Sprintf(
		"%d requests in %v, from %d of the %d rows of the trace %s, %.3g times as fast as recorded",
		len(r.requests), playTime, r.rows, len(rows), set.trace, r.speedup), err
}
