package layout

import (
	"testing"
)

// A key that is not exactly a bucket shard's is not used as one.
func TestOtherKeysAreNotBuckets(t *testing.T) {
	if _, _, _, shard, ok := ParseBucketPK("ns/BUCKET#acme#gpt#7"); !ok || shard != 7 {
		t.Fatalf("shard %d, %v", shard, ok)
	}
	for _, pk := range []string{
		"", "ns", "/BUCKET#acme#gpt#7", "ns/ENTITY#acme#gpt#7", "ns/BUCKET#", "ns/BUCKET#acme", "ns/BUCKET#7",
		"ns/BUCKET#acme#gpt#",
		"ns/BUCKET#acme#gpt#x", "ns/BUCKET#acme#gpt#-1", "ns/BUCKET#acme#gpt#07", "ns/BUCKET#acme#gpt#+7",
		"ns/BUCKET##gpt#7", "ns/BUCKET#acme##7", "ns/BUCKET#acme#7",
	} {
		ns, entity, resource, shard, ok := ParseBucketPK(pk)
		if ok || ns != "" || entity != "" || resource != "" || shard != 0 {
			t.Errorf("%q is shard %d of %q on %q in %q", pk, shard, entity, resource, ns)
		}
	}
}
