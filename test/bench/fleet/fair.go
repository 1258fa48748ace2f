package fleet

// jain returns how evenly processes are served: 1 if each gets the same part of its demand.
func jain(wanted, got []float64) float64 {
	sum, squares, n := 0., 0., 0.
	for i := range wanted {
		if wanted[i] > 0 {
			x := got[i] / wanted[i]
			sum, squares, n = sum+x, squares+x*x, n+1
		}
	}
	return sum * sum / max(n*squares, 1e-9)
}

// unfair returns the lowest Jain's index of grants by process, over windows of 10 s, a second
// apart, in which each process got 50 on average; 1 without such a window.
func unfair(grants []granted, processes int) float64 {
	const window, least = 10_000, 50
	lowest, all := 1., make([]float64, processes)
	for i := range all {
		all[i] = 1
	}
	if len(grants) == 0 {
		return lowest
	}
	for from, last := grants[0].sent, grants[len(grants)-1].sent; from+window <= last; from += 1000 {
		got, n := make([]float64, processes), 0
		for _, g := range grants {
			if g.sent >= from && g.sent < from+window {
				got[g.process]++
				n++
			}
		}
		if n >= least*processes {
			lowest = min(lowest, jain(all, got))
		}
	}
	return lowest
}
