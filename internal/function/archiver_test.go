package function

import (
	"strings"
	"testing"
)

func TestArchiverFromEnv(t *testing.T) {
	for _, c := range []struct {
		value string
		ok    bool
	}{
		{"audit-archive", true},
		{"my.bucket.123", true},
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
		{"s3://audit", false},
		{"audit\n", false},
	} {
		got, err := ArchiverFromEnv(func(name string) string {
			if name == EnvArchiveBucketName {
				return c.value
			}
			return "unrelated"
		})
		if c.ok {
			if err != nil || got.BucketName != c.value {
				t.Errorf("%q: %+v, %v", c.value, got, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%q is accepted", c.value)
			continue
		}
		for _, part := range []string{EnvArchiveBucketName, strings.Trim(strings.TrimSpace(c.value), "\n"), "3 to 63"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: message %q does not say %q", c.value, err, part)
			}
		}
	}
}
