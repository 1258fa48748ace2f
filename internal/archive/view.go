package archive

import (
	"fmt"
	"regexp"
)

// wrongView finds the view of a record whose stream gives less than both images. Within
// text a quote is escaped, and attributes are objects: it is no part of an item.
var wrongView = regexp.MustCompile(`"StreamViewType"\s*:\s*"(KEYS_ONLY|NEW_IMAGE|OLD_IMAGE)"`)

// noImage finds the reason of a record that has no image.
var noImage = regexp.MustCompile(`\b(no|without) "?(New|Old)Image\b`)

// foldViews returns malformed records, but of the ones that lack an image because their stream
// has the wrong view only the first. Each would be an object that says the same, as long as the
// view stays as it is. A record that is malformed for another reason is kept: it may be all that
// there is of an event.
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
