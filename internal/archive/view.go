package archive

import (
	"fmt"
	"regexp"
)

// wrongView finds the view of a record whose stream lacks one of the images. It cannot match within
// an item: quotes in text are escaped, and attributes are objects.
var wrongView = regexp.MustCompile(`"StreamViewType"\s*:\s*"(KEYS_ONLY|NEW_IMAGE|OLD_IMAGE)"`)

// noImage matches the reason of a record without an image.
var noImage = regexp.MustCompile(`\b(no|without) "?(New|Old)Image\b`)

// foldViews drops malformed records that lack an image because their stream has the wrong view,
// except the first: each would be an object with the same content, as long as the view is
// unchanged. Records that are malformed for another reason stay: they may be the only trace of an
// event.
func foldViews(all []Malformed) []Malformed {
	var (
		out      []Malformed
		first, n int
		view     string
	)
	for _, m := range all {
		found := wrongView.FindSubmatch(m.Record)
		if found == nil || !noImage.MatchString(m.Reason) {
			out = append(out, m)
			continue
		}
		if n++; n == 1 {
			first, view = len(out), string(found[1])
			out = append(out, m)
		}
	}
	if n > 1 {
		out[first].Reason += fmt.Sprintf("; the view of the stream is %s and must be NEW_AND_OLD_IMAGES: "+
			"so it is with %d records of the batch, of which this is the first", view, n)
	}
	return out
}
