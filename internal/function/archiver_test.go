package function

import (
	"fmt"
	"strings"
	"testing"
)

func TestArchiveFromEnv(t *testing.T) {
	for _, c := range []struct {
		value string
		ok    bool
	}{
		{"audit-archive", true},
		{"my.bucket.123", true},
		{"az-09", true},
		{"09.az", true},
		{"abc", true},
		{strings.Repeat("a", 63), true},
		{"", false},
		{"ab", false},
		{strings.Repeat("a", 64), false},
		{"Audit", false},
		{"audit_archive", false},
		{"-audit", false},
		{"audit-", false},
		{"audit archive", false},
		{"a`z", false},
		{"a{z", false},
		{"a/z", false},
		{"a:z", false},
		{"s3://audit", false},
		{"audit\n", false},
	} {
		got, err := ArchiveFromEnv(func(name string) string {
			if name == EnvArchiveBucketName {
				return c.value
			}
			return "unrelated"
		})
		if c.ok {
			if err != nil || got != c.value {
				t.Errorf("%q: %q, %v", c.value, got, err)
			}
			continue
		}
		want := fmt.Sprintf("ARCHIVE_BUCKET_NAME=%q: want the name of an S3 bucket: 3 to 63 lower-case letters, "+
			"digits, dots and hyphens, first and last a letter or digit", c.value)
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", c.value, err, want)
		}
	}
}
