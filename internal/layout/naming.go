package layout

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// MaxName bounds the names of entities and resources, in bytes.
const MaxName = 512

// maxEscaped bounds an entity in its escaped form, as in the key of a bucket. Together with a
// resource of full length, the key stays within DynamoDB's 2048 bytes.
const maxEscaped = 1024

// Names describes the names of entities and resources, for messages.
const Names = "1 to 512 bytes of printable text"

// EntityNames describes the names of entities: Names, and escaped no longer than maxEscaped.
const EntityNames = Names + ", at most 1024 with each '#' and '%' counted three times"

// ResourceNames describes the names of resources.
const ResourceNames = Names + ", other than the reserved \"" + DefaultResource + "\""

// CheckEntity returns an error if s is not a valid entity name.
func CheckEntity(s string) error {
	if err := checkName(s); err != nil {
		return err
	}
	if n := len(escaped(s)); n > maxEscaped {
		return fmt.Errorf("%d bytes with each '#' and '%%' taking three, at most %d are accepted", n, maxEscaped)
	}
	return nil
}

// CheckResource returns an error if s is not a valid resource name.
func CheckResource(s string) error {
	if s == DefaultResource {
		return errors.New("reserved")
	}
	return checkName(s)
}

// checkName accepts readable text: letters, marks, digits, punctuation, symbols and the plain
// space.
func checkName(s string) error {
	if len(s) == 0 || len(s) > MaxName {
		return fmt.Errorf("%d bytes", len(s))
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' {
			return checkRunes(s)
		}
	}
	return nil
}

func checkRunes(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("not UTF-8")
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("character %U cannot be printed", r)
		}
	}
	return nil
}

// escaped returns an entity in the form of a bucket key: a '#' would end the name, and '%' begins
// an escape. Names that other clients accept contain neither.
func escaped(entity string) string {
	if strings.IndexByte(entity, '#') < 0 && strings.IndexByte(entity, '%') < 0 {
		return entity
	}
	return escaper.Replace(entity)
}

func unescaped(entity string) string {
	if strings.IndexByte(entity, '%') < 0 {
		return entity
	}
	return unescaper.Replace(entity)
}

var (
	escaper   = strings.NewReplacer("%", "%25", "#", "%23")
	unescaper = strings.NewReplacer("%25", "%", "%23", "#")
)

// EntitySubject returns the subject of audit events about an entity: its name, escaped if it could
// be mistaken for another kind of subject.
func EntitySubject(entity string) string {
	switch entity[:min(len(entity), 1)] {
	case "$":
		return "%24" + entity[1:]
	case "%":
		return "%25" + entity[1:]
	}
	return entity
}

// SubjectEntity returns the entity of an audit subject; ok is false if the subject is not an
// entity.
func SubjectEntity(subject string) (entity string, ok bool) {
	if rest, escaped := strings.CutPrefix(subject, "%24"); escaped {
		return "$" + rest, true
	}
	if rest, escaped := strings.CutPrefix(subject, "%25"); escaped {
		return "%" + rest, true
	}
	return subject, subject != AuditSystem && !strings.HasPrefix(subject, AuditResourcePrefix)
}

// Cut returns s, or the longest beginning of it that fits a sort key of an index. Readers use only
// the first part of such keys.
func Cut(s string) string {
	if len(s) <= item.MaxSortKey {
		return s
	}
	end := item.MaxSortKey
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
