package streams

import (
	"context"
	"errors"

	"github.com/zeroae/zae-limiter-go/internal/archive"
	"github.com/zeroae/zae-limiter-go/internal/stream"
)

var errNowhere = errors.New("malformed record: nothing is configured to keep it in")

// kept returns the objects in which malformed records are stored. They have the same form and keys
// as the archiver's, so there is one place and one way to look at them:
// malformed/year=…/month=…/day=…/{sequence number}-{hash}.jsonl.gz. A key depends only on the
// record: a record that is delivered again overwrites its object.
func kept(malformed []stream.Malformed) []archive.Object {
	var b archive.Batch
	for _, m := range malformed {
		b.Malformed = append(b.Malformed, archive.Malformed{Reason: m.Reason, Record: m.Raw, Sequence: m.Sequence,
			Day: archive.Created(m.Created)})
	}
	return b.Objects()
}

// setAside stores one malformed record. If it fails, the record must be reported as not done.
// Lambda then retries it, and finally sends it to the on-failure destination, so it is not lost. It
// blocks for at most callTimeout, including retries by Keep.
func (a *Aggregator) setAside(ctx context.Context, o archive.Object) error {
	if a.keep == nil {
		return errNowhere
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return a.keep(ctx, Object{
		Key: o.Key, Body: o.Body, ContentType: archive.ContentType, ContentEncoding: archive.ContentEncoding,
	}) // commit point: the record may be skipped once this succeeds
}
