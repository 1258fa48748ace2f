package archive

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// fields extracts attributes from an image and keeps the first error.
type fields struct {
	image map[string]value
	err   error
}

func (f *fields) fail(name string, err error) {
	if f.err == nil {
		f.err = fmt.Errorf("attribute %q: %w", clip(name), err)
	}
}

// optional returns a string attribute that may be missing or NULL.
func (f *fields) optional(name string) *string {
	switch s := f.any(name).(type) {
	case string:
		return &s
	case nil: // or it has failed
	default:
		f.fail(name, errors.New("is not a string"))
	}
	return nil
}

// required returns a string attribute that must exist and not be empty.
func (f *fields) required(name string) string {
	s := f.optional(name)
	if s == nil || *s == "" {
		f.fail(name, errors.New("is missing or empty"))
		return ""
	}
	return *s
}

// any extracts an attribute, nil if it is missing, NULL, or fails.
func (f *fields) any(name string) any {
	v, ok := f.image[name]
	if !ok {
		return nil
	}
	delete(f.image, name)
	p, err := v.plain()
	if err != nil {
		f.fail(name, err)
	}
	return p
}

// rest returns the attributes that were not extracted, or nil. They are visited in order of name,
// so the same error is always reported.
func (f *fields) rest() map[string]any {
	if len(f.image) == 0 {
		return nil
	}
	rest := make(map[string]any, len(f.image))
	for _, name := range slices.Sorted(maps.Keys(f.image)) {
		rest[name] = f.any(name)
	}
	return rest
}
