package table

import (
	"reflect"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/item"
)

// A key that is not exactly that of a shard of a bucket is none: nobody acts on it.
func TestKeysThatAreNoBuckets(t *testing.T) {
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

// An item with the key of something else is no state of a provisioner.
func TestOnlyAProvisionersKeyHasItsState(t *testing.T) {
	it := Provisioner{Namespace: "ns"}.Item()
	if _, err := DecodeProvisioner(it); err != nil {
		t.Fatal(err)
	}
	sk := item.KeyOf(it).SK
	for _, other := range []string{"#VERSION", sk + "x", sk + "#0", sk + "#"} {
		if it[item.AttrSK] = item.S(other); IsProvisioner(item.KeyOf(it)) {
			t.Errorf("%s is that of a provisioner", other)
		}
		if _, err := DecodeProvisioner(it); err == nil {
			t.Errorf("read from the key %s", other)
		}
	}
}

// An entity that has no parent any more is found under none; when it was created stays.
func TestAnEntityLeavesItsParent(t *testing.T) {
	e := Entity{Namespace: "ns", ID: "acme", Parent: "org", CreatedAt: "2024-01-01T00:00:00Z"}
	stored := e.Item()
	e.Parent, e.CreatedAt = "", "2025-01-01T00:00:00Z"
	after, held, err := e.Update().Apply(stored)
	if err != nil || !held || after[item.AttrGSI1PK] != nil || after[item.AttrGSI1SK] != nil {
		t.Fatalf("held %v, %v: %v", held, err, after)
	}
	delete(stored, attrCreatedAt)
	if moved, held, err := e.Move().Apply(stored); err != nil || !held || moved[attrCreatedAt] != nil {
		t.Errorf("a move, held %v, %v, makes up when it was created: %v", held, err, moved)
	}
	got, err := DecodeEntity(after)
	if err != nil || got.Parent != "" || got.CreatedAt != "2024-01-01T00:00:00Z" {
		t.Errorf("%+v, %v", got, err)
	}
}

// An entity that moves has its new parent, and passes requests on or not; all else stays as it is.
func TestAnEntityMoves(t *testing.T) {
	is := Entity{Namespace: "ns", ID: "acme", Name: "Acme", CreatedAt: "2024-01-01T00:00:00Z"}
	it := is.Item()
	for _, to := range []Entity{{Parent: "org", Cascade: true}, {Parent: "org"}, {Parent: "other", Cascade: true}, {}} {
		to.Namespace, to.ID, to.Name = "ns", "acme", "not to be stored"
		after, held, err := to.Move().Apply(it)
		if err != nil || !held {
			t.Fatal(held, err)
		}
		it = after
		is.Parent, is.Cascade = to.Parent, to.Cascade
		got, err := DecodeEntity(it)
		if err != nil || !reflect.DeepEqual(got, is) || (it[item.AttrGSI1PK] != nil) != (to.Parent != "") {
			t.Errorf("%+v, %v, want %+v", got, err, is)
		}
	}
}

// When a shard was created is not known where another client has an attribute of that name.
func TestForeignBirthsAreNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		value item.Value
		want  int64
	}{"seconds": {item.N(1_700_000_000), 1_700_000_000}, "negative": {item.N(-5), 0}, "a text": {item.S("5"), 0}} {
		it := sampleBucket().Item()
		it[attrBorn] = c.value
		b, err := DecodeShard(it)
		if err != nil || b.Born != c.want {
			t.Errorf("%s: %d, %v, want %d", name, b.Born, err, c.want)
		}
	}
}
