package limiter

import (
	"hash/fnv"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zeroae/zae-limiter-go/internal/store"
)

// draws are what chance decides in the tests of this package: which shard a request tries,
// and how long pauses are. Each world begins with its own, made of the name of the test, so
// that a test that plays one call after another is the same in every run. With -count each
// time has others: -count=200 plays 200 of them. DRAWS=7 shifts them all.
type draws struct {
	state atomic.Uint64
	begun sync.Map // test name -> *atomic.Uint64, how many worlds have begun
	shift uint64
}

var chance draws

func TestMain(m *testing.M) {
	chance.shift, _ = strconv.ParseUint(os.Getenv("DRAWS"), 10, 64)
	store.SetRandom(chance.next)
	os.Exit(m.Run())
}

// begin starts the draws of a world.
func (d *draws) begin(test string) {
	before, _ := d.begun.LoadOrStore(test, new(atomic.Uint64))
	h := fnv.New64a()
	h.Write([]byte(test))
	d.state.Store(h.Sum64() + before.(*atomic.Uint64).Add(1)<<32 + d.shift<<16)
}

// longestPauses makes every pause as long as it may be, until the test ends.
func longestPauses(t *testing.T) {
	// But for some nanoseconds: 3.2 s are a multiple of every bound of a pause.
	before := store.SetRandom(func() uint64 { return 3_200_000_000 })
	t.Cleanup(func() { store.SetRandom(before) })
}

// next returns 64 random bits (splitmix64).
func (d *draws) next() uint64 {
	x := d.state.Add(0x9e3779b97f4a7c15)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
