package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"
)

// envTrace is the environment variable that names a trace.
const envTrace = "TRACE"

// traceColumns is the header of a trace: of each request when it came, how many
// tokens were known before the call, and how many it turned out to generate.
var traceColumns = []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}

const (
	traceTime      = "2006-01-02 15:04:05"
	maxTraceTokens = 10_000_000
)

// traceRow is one request of a trace, at some time after the first.
type traceRow struct {
	at                 time.Duration
	context, generated int64
}

// readTrace reads a trace file whole. The error names the line, the column and the accepted values.
func readTrace(path string) ([]traceRow, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", envTrace, err)
	}
	defer f.Close()
	rows, err := parseTrace(f)
	if err != nil {
		return nil, fmt.Errorf("%s is %q: %w", envTrace, path, err)
	}
	return rows, nil
}

func parseTrace(in io.Reader) ([]traceRow, error) {
	r := csv.NewReader(in)
	r.FieldsPerRecord = len(traceColumns)
	r.ReuseRecord = true
	head, err := r.Read()
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("the file is empty, want the columns %q", traceColumns)
	case err != nil:
		return nil, fmt.Errorf("%w; want the columns %q", err, traceColumns)
	case !slices.Equal(head, traceColumns):
		return nil, fmt.Errorf("line 1: columns %q, want %q", head, traceColumns)
	}
	var rows []traceRow
	var first time.Time
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		line, _ := r.FieldPos(0)
		row, at, err := parseRow(record)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if len(rows) == 0 {
			first = at
		}
		row.at = at.Sub(first)
		if len(rows) > 0 && row.at < rows[len(rows)-1].at {
			return nil, fmt.Errorf("line %d: TIMESTAMP is %q, want none earlier than the line before", line, record[0])
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, errors.New("no requests after the header, want at least one")
	}
	return rows, nil
}

func parseRow(record []string) (traceRow, time.Time, error) {
	var row traceRow
	at, err := time.Parse(traceTime, record[0])
	if err != nil {
		return row, at, fmt.Errorf("TIMESTAMP is %q, want the form 2023-11-16 18:15:46.6805900", record[0])
	}
	for i, to := range []*int64{&row.context, &row.generated} {
		n, err := strconv.ParseInt(record[i+1], 10, 64)
		if err != nil || n < 0 || n > maxTraceTokens {
			return row, at, fmt.Errorf("%s is %q, want a whole number of 0 to %d", traceColumns[i+1], record[i+1],
				maxTraceTokens)
		}
		*to = n
	}
	return row, at, nil
}

// replayed is a trace made into requests.
type replayed struct {
	requests []request
	speedup  float64
	rows     int // of the file that are used
}

// replay spreads a trace over the tenants, and plays it so fast that requests come at playRate on
// average for playTime: later rows are left out, and a trace that is over sooner begins anew.
func replay(rows []traceRow) replayed {
	span := max(rows[len(rows)-1].at, time.Second)
	speedup := playRate * span.Seconds() / float64(len(rows))
	out := replayed{speedup: speedup}
	rng := rand.New(rand.NewPCG(seed, 1))
	who := byWeight()
	for i := 0; ; i++ {
		row := rows[i%len(rows)]
		at := time.Duration((float64(row.at) + float64(span)*float64(i/len(rows))) / speedup) // centuries fit
		if at > playTime {
			out.rows = min(i, len(rows))
			return out
		}
		r := anyRequest(who, rng)
		r.at, r.estimate, r.settle = at, max(row.context, 1), row.generated
		out.requests = append(out.requests, r)
	}
}
