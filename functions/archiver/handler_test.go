package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/zeroae/zae-limiter-go/internal/check"
	"github.com/zeroae/zae-limiter-go/internal/function"
)

// batch returns a payload of expired audit events with sequence numbers from..to-1. Every tenth
// record is malformed, and every tenth is a manual delete.
func batch(from, to int) []byte {
	var records []string
	for i := from; i < to; i++ {
		identity := `"userIdentity":{"type":"Service","principalId":"dynamodb.amazonaws.com"},`
		action := `,"action":{"S":"limits_set"}`
		switch i % 10 {
		case 4:
			action = ""
		case 7:
			identity = ""
		}
		records = append(records, fmt.Sprintf(
			`{"eventName":"REMOVE",%s"dynamodb":{"ApproximateCreationDateTime":1736953200,`+
				`"SequenceNumber":"%d","OldImage":{"PK":{"S":"ns%d/AUDIT#acme"},"SK":{"S":"#AUDIT#%s"},"event_id":{"S":"%s"},`+
				`"timestamp":{"S":"2024-10-%02dT00:00:00Z"}%s}}}`, identity, i, i%3, eventID(i), eventID(i), 1+i%4, action))
	}
	return []byte(`{"Records":[` + strings.Join(records, ",") + `]}`)
}

func eventID(i int) string { return fmt.Sprintf("01EVENT%06d", i) }

// isKey reports whether an object key belongs to event i or malformed record i.
func isKey(key string, i int) bool {
	return strings.Contains(key, eventID(i)) || strings.Contains(key, fmt.Sprintf("/%d-", i))
}

func handle(t *testing.T, h *handler, ctx context.Context, payload []byte) string {
	t.Helper()
	response, err := h.Invoke(ctx, payload)
	check.Must(t, err)
	return string(response)
}

func resumeAt(i int) string {
	return fmt.Sprintf(`{"batchItemFailures":[{"itemIdentifier":"%d"}]}`, i)
}

const allDone = `{"batchItemFailures":[]}`

// checkArchive requires every event of from..to-1 exactly once by id, every malformed record once,
// and no manual delete.
func checkArchive(t *testing.T, s *store, from, to int) {
	t.Helper()
	count, kept := map[string]int{}, 0
	for _, o := range s.objects(t) {
		if strings.HasPrefix(o.Key, "malformed/") {
			kept++
			continue
		}
		for line := range strings.Lines(o.Text) {
			var e struct {
				ID string `json:"event_id"`
			}
			check.Must(t, json.Unmarshal([]byte(line), &e))
			count[e.ID]++
		}
	}
	expired, duplicates, missing, malformed := 0, 0, 0, 0
	for i := from; i < to; i++ {
		switch n := count[eventID(i)]; i % 10 {
		case 4:
			malformed++
		case 7:
			check.Equal(t, n, 0, "manual delete %d is archived", i)
		default:
			expired++
			duplicates += max(0, n-1)
			missing += max(0, 1-n)
		}
	}
	t.Logf("archive: archived=%d expired=%d duplicates=%d missing=%d malformed kept=%d", len(count), expired, duplicates,
		missing, kept)
	if len(count) != expired || duplicates != 0 || missing != 0 || kept != malformed {
		t.Errorf("want archived=%d duplicates=0 missing=0 malformed kept=%d", expired, malformed)
	}
}

func TestFailedPuts(t *testing.T) {
	for _, c := range []struct {
		name     string
		fail     func(key string) fault
		attempts int
		want     string
	}{
		{"none", nil, 1, allDone},
		{"one refused", func(key string) fault { return when(isKey(key, 118), refused) }, 1, resumeAt(118)},
		{"one stored, answer lost", func(key string) fault { return when(isKey(key, 118), lost) }, 1, resumeAt(118)},
		{"two refused", func(key string) fault { return when(isKey(key, 103) || isKey(key, 102), refused) }, 1,
			resumeAt(102)},
		{"malformed record refused", func(key string) fault { return when(isKey(key, 104), refused) }, 1, resumeAt(104)},
		{"all refused", func(string) fault { return refused }, 2, resumeAt(100)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t)
			h, _ := s.handler(t, c.attempts)
			s.failing(c.fail)
			check.Equal(t, handle(t, h, t.Context(), batch(100, 150)), c.want, "response")
			s.failing(nil)
			check.Equal(t, handle(t, h, t.Context(), batch(100, 150)), allDone, "redelivered whole: response")
			checkArchive(t, s, 100, 150)
		})
	}
}

func when(yes bool, f fault) fault {
	if yes {
		return f
	}
	return healthy
}

// The client repeats a put at once if it met another put of its object, as two deliveries may
// cause, or if its answer was lost. If the object exists by then, the function does not count it as
// written.
func TestPutsAreRepeatedWithinTheInvocation(t *testing.T) {
	for _, c := range []struct {
		first            fault
		written, existed int
	}{{met, 9, 0}, {lost, 0, 9}} {
		s := newStore(t)
		h, metrics := s.handler(t, 3)
		seen := map[string]bool{}
		s.failing(func(key string) fault {
			first := !seen[key]
			seen[key] = true
			return when(first, c.first)
		})
		check.Equal(t, handle(t, h, t.Context(), batch(100, 110)), allDone, "response")
		for _, want := range []string{
			fmt.Sprintf(`"Writes":%d,"WritesFailed":0,`, c.written), fmt.Sprintf(`"Existing":%d,`, c.existed),
		} {
			if !strings.Contains(metrics.String(), want) {
				t.Errorf("metrics %s, want %s", metrics, want)
			}
		}
		checkArchive(t, s, 100, 110)
	}
}

// A batch logs its result and the stored bytes. A failed put names its object.
func TestBatchesLogTheirResult(t *testing.T) {
	s := newStore(t)
	h, metrics := s.handler(t, 1)
	var log bytes.Buffer
	h.function, h.log = "shelf", slog.New(slog.NewTextHandler(&log, nil))
	s.failing(func(key string) fault { return when(isKey(key, 109), refused) })
	check.Equal(t, handle(t, h, t.Context(), batch(100, 110)), resumeAt(109), "response")
	size := 0
	for _, o := range s.stored {
		size += len(o.Text)
	}
	if want := fmt.Sprintf(`"Bytes":%d}`, size); size == 0 || !strings.Contains(metrics.String(), want) ||
		!strings.Contains(metrics.String(), `"Function":"shelf"`) {
		t.Errorf("metrics %s, want %s", metrics, want)
	}
	for _, want := range []string{
		`msg="object not written" object="audit/year=2024/month=10/day=02/audit-ns1-` + eventID(109),
		"malformed record kept", "writes=8 failed=1",
		fmt.Sprintf("skipped=1 existing=0 not_begun=0 bytes=%d resume_at=109", size),
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log\n%s\nwant %s", log.String(), want)
		}
	}
}

func TestFailuresStopFurtherPuts(t *testing.T) {
	s := newStore(t)
	h, metrics := s.handler(t, 1)
	s.failing(func(string) fault { return refused })
	handle(t, h, t.Context(), batch(100, 200))
	if n := s.putCount(); n > putsInFlight {
		t.Errorf("%d puts while S3 refuses all, want at most the %d in flight", n, putsInFlight)
	}
	if strings.Contains(metrics.String(), `"NotBegun":0`) {
		t.Errorf("metrics do not report the jobs not begun: %s", metrics)
	}
}

// However Lambda cuts, repeats and resumes batches, and whatever S3 does, every event is archived
// once when everything is acknowledged.
func TestRedeliveriesInAnyCutArchiveOnce(t *testing.T) {
	s := newStore(t)
	h, _ := s.handler(t, 1)
	h.log = slog.New(slog.DiscardHandler)
	rng, faults := rand.New(rand.NewPCG(7, 8)), rand.New(rand.NewPCG(9, 10))
	const from, to = 100, 160
	s.failing(func(string) fault { // called for one put at a time
		return [...]fault{healthy, healthy, healthy, healthy, healthy, refused, lost}[faults.IntN(7)]
	})
	deliveries, at := 0, from
	for at < to {
		deliveries++
		end := at + 1 + rng.IntN(to-at)
		response := handle(t, h, t.Context(), batch(at, end))
		if rng.IntN(4) == 0 {
			continue // the acknowledgement is lost: delivered again, cut elsewhere
		}
		if response == allDone {
			at = end
			continue
		}
		resumed := false
		for i := at; i < end && !resumed; i++ {
			if resumed = response == resumeAt(i); resumed {
				at = i
			}
		}
		if !resumed {
			t.Fatalf("batch %d..%d: response %s resumes nowhere in it", at, end, response)
		}
	}
	s.failing(nil)
	late := from + rng.IntN(to-from-5)
	handle(t, h, t.Context(), batch(late, late+5)) // a late duplicate
	t.Logf("%d deliveries", deliveries)
	checkArchive(t, s, from, to)
}

// hanging is a putter that never answers for one event.
type hanging int

func (n hanging) PutObject(ctx context.Context, in *s3.PutObjectInput,
	_ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	if isKey(*in.Key, int(n)) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &s3.PutObjectOutput{}, nil
}

// When the deadline is near, puts that hang or were not started are reported as not done, in time.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var metrics bytes.Buffer
		h := &handler{store: hanging(102), bucket: testBucket, log: slog.New(slog.DiscardHandler), metrics: &metrics}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		payload := bytes.ReplaceAll(batch(100, 104), []byte("1736953200"), // ten seconds old
			strconv.AppendInt(nil, start.Unix()-10, 10))
		check.Equal(t, handle(t, h, ctx, payload), resumeAt(102), "response")
		check.Equal(t, time.Since(start), time.Minute-function.ReportMargin,
			"reported after, want %v before the deadline", function.ReportMargin)
		if !strings.Contains(metrics.String(), `"Writes":3,"WritesFailed":1,"ElapsedMs":59000,"IteratorAgeMs":10000,`) {
			t.Errorf("metrics %s", metrics.String())
		}

		metrics.Reset()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		check.Equal(t, handle(t, h, over, batch(100, 104)), resumeAt(100), "no time at all: response")
		if !strings.Contains(metrics.String(), `"NotBegun":4`) {
			t.Errorf("metrics %s", metrics.String())
		}
	})
}

// A record without a sequence number cannot be named, so the whole batch is repeated.
func TestRecordsWithoutNumberRepeatTheBatch(t *testing.T) {
	s := newStore(t)
	h, _ := s.handler(t, 1)
	payload := bytes.Replace(batch(100, 103), []byte(`"SequenceNumber":"102",`), nil, 1)
	s.failing(func(key string) fault { return when(isKey(key, 102), refused) })
	check.Equal(t, handle(t, h, t.Context(), payload), `{"batchItemFailures":[{"itemIdentifier":""}]}`, "response")
}

// An archived event cannot be replaced, even by an item with the same key. The content of such an
// item is not lost either. Both may come in any order and batch.
func TestArchivedEventStays(t *testing.T) {
	event := batch(100, 101)
	forged := bytes.Replace(event, []byte("limits_set"), []byte("nothing_happened"), 1)
	together := slices.Concat(bytes.TrimSuffix(event, []byte("]}")), []byte(","),
		bytes.TrimPrefix(forged, []byte(`{"Records":[`)))
	for name, payloads := range map[string][][]byte{
		"one after the other": {event, forged},
		"delivered again":     {event, forged, forged, event},
		"in one batch":        {together},
		"again in one batch":  {event, together, forged},
	} {
		s := newStore(t)
		h, _ := s.handler(t, 1)
		for _, p := range payloads {
			check.Equal(t, handle(t, h, t.Context(), p), allDone, "%s: response", name)
		}
		var lines []string
		for _, o := range s.objects(t) {
			lines = append(lines, o.Text)
		}
		all := strings.Join(lines, "")
		if len(lines) != 2 || !strings.Contains(all, "limits_set") || !strings.Contains(all, "nothing_happened") {
			t.Errorf("%s: archived\n%s", name, all)
		}
	}
}

func TestOtherPayloadsAreRefused(t *testing.T) {
	s := newStore(t)
	h, _ := s.handler(t, 1)
	for _, payload := range []string{``, `{}`, `{"Records":7}`} {
		if got, err := h.Invoke(t.Context(), []byte(payload)); err == nil {
			t.Errorf("%q: response %s, want an error", payload, got)
		}
	}
	check.Equal(t, s.putCount(), 0, "puts")
}

func TestStart(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	env := func(vars map[string]string) func(string) string {
		return func(name string) string { return vars[name] }
	}
	log := slog.New(slog.DiscardHandler)

	h, err := newHandler(
		env(map[string]string{"ARCHIVE_BUCKET_NAME": "audit-archive", "AWS_LAMBDA_FUNCTION_NAME": "fn"}), log)
	if err != nil || h.bucket != "audit-archive" || h.function != "fn" || h.log != log || h.metrics != os.Stdout {
		t.Errorf("%+v, %v", h, err)
	}
	h, err = newHandler(
		env(map[string]string{"ARCHIVE_BUCKET_NAME": "audit-archive", "AWS_LAMBDA_LOG_LEVEL": "WARN"}), log)
	if err != nil || h.function != "archiver" || h.metrics == os.Stdout {
		t.Errorf("its metrics would be dropped with the log below WARN: %+v, %v", h, err)
	}
	_, err = newHandler(env(map[string]string{"ARCHIVE_BUCKET_NAME": "Not A Bucket"}), log)
	check.Says(t, err, `ARCHIVE_BUCKET_NAME="Not A Bucket"`)
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	_, err = newHandler(env(map[string]string{"ARCHIVE_BUCKET_NAME": "audit-archive"}), log)
	check.Says(t, err, "AWS_REGION")
}
