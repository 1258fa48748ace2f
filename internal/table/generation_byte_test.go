package table

import "testing"

// A generation's byte is 0 only if there is no generation. All other bytes are about equally
// frequent.
func TestGenerationBytesAreEvenlyDistributed(t *testing.T) {
	if got := GenerationByte(0); got != 0 {
		t.Errorf("no generation is %d", got)
	}
	var often [256]int
	for i := range int64(255 * 100) {
		often[GenerationByte((sampleNow+i)<<drawBits)]++
	}
	for b, n := range often {
		if few := n < 60 || n > 140; few != (b == 0) || b == 0 && n > 0 {
			t.Errorf("%d of 25,500 generations have the byte %d", n, b)
		}
	}
}
