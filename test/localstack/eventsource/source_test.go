package eventsource

import (
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/check"
)

// Each open shard may have had a read in progress. A shard that ends may have children.
func TestAllIsReadAfterTwoQuietReadsOfEachShard(t *testing.T) {
	for r, want := range map[reading]bool{
		{}: false, {quiet: 9}: false, {shards: 1, quiet: 1}: false, {shards: 1, quiet: 2}: true,
		{shards: 3, quiet: 5}: false, {shards: 3, quiet: 6}: true, {shards: 3, ended: 1, quiet: 4}: true,
		{shards: 3, ended: 1, quiet: 3}: false, {shards: 2, ended: 2}: true, {ended: 2, quiet: 9}: false,
	} {
		check.Equal(t, r.done(), want, "%+v", r)
	}
}

func TestReadsAreQuietUntilSomethingIsFound(t *testing.T) {
	r := reading{shards: 2, errors: 3}
	r.add(0, false)
	r.add(0, false)
	check.Equal(t, r, reading{shards: 2, quiet: 2}, "two reads that found nothing")
	r.add(1, false)
	check.Equal(t, r, reading{shards: 2}, "one that found something")
	r.add(0, false)
	r.add(0, true)
	check.Equal(t, r, reading{ended: 1}, "one at the end of its shard")
}
