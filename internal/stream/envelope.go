package stream

// record is one stream record, as far as it has been read.
type record struct {
	operation Operation
	stream    int64 // when the stream was enabled
	sequence  string
	created   int64
	key       *shardKey
	isState   bool // the sort key is a bucket's

	seen    seen
	problem string // the first error of the envelope
	new     image
	old     image
}

// seen is the set of members that the record has had so far.
type seen uint16

const (
	seenOperation seen = 1 << iota
	seenDynamoDB
	seenStream
	seenCreated
	seenKeys
	seenPK
	seenSK
	seenSequence
	seenNew
	seenOld
)

func (r *record) reset() {
	r.operation, r.stream, r.sequence, r.created = 0, 0, "", 0
	r.key, r.isState, r.seen, r.problem = nil, false, 0, ""
	r.new.reset()
	r.old.reset()
}

func (r *record) wrong(problem string) {
	if r.problem == "" {
		r.problem = problem
	}
}

// once records a member, and reports whether it is the first with its name; a second one makes the
// record malformed.
func (r *record) once(m seen, duplicate string) bool {
	if r.seen&m != 0 {
		r.wrong(duplicate)
		return false
	}
	r.seen |= m
	return true
}

// complete returns the first error of the envelope, or "".
func (r *record) complete() string {
	switch {
	case r.problem != "":
		return r.problem
	case r.seen&seenOperation == 0:
		return `no "eventName"`
	case r.seen&seenDynamoDB == 0:
		return `no "dynamodb"`
	case r.seen&seenSequence == 0:
		return `no "SequenceNumber"`
	case r.seen&seenKeys == 0:
		return `no "Keys"`
	case r.seen&seenPK == 0:
		return `no "PK" in "Keys"`
	case r.seen&seenSK == 0:
		return `no "SK" in "Keys"`
	}
	return ""
}

// imagesComplete returns the first error of a bucket's change, or "".
func (r *record) imagesComplete() string {
	switch {
	case !r.key.ok:
		return "partition key is none of a bucket"
	case r.seen&seenCreated == 0:
		return `no "ApproximateCreationDateTime"`
	case r.operation == Remove:
		return r.oldComplete(`REMOVE without "OldImage"`)
	case r.seen&seenNew == 0:
		return `no "NewImage"`
	case r.new.problem != "":
		return "NewImage: " + r.new.problem
	case r.operation == Insert && r.seen&seenOld != 0:
		return `INSERT with "OldImage"`
	case r.operation == Modify:
		return r.oldComplete(`MODIFY without "OldImage"`)
	}
	return ""
}

func (r *record) oldComplete(missing string) string {
	switch {
	case r.seen&seenOld == 0:
		return missing
	case r.old.problem != "":
		return "OldImage: " + r.old.problem
	}
	return ""
}
