package loadcheck

// tree holds one number per index, initially zero. It can add to a range, and find the maximum of a
// prefix, in O(log n).
type tree struct {
	n     int
	nodes []node
}

type node struct {
	best wide // maximum below, including this node's own addition
	at   int  // its index
	plus wide // added to everything below
}

func newTree(n int) *tree {
	t := &tree{n: n, nodes: make([]node, 4*n)}
	if n > 0 {
		t.build(1, 0, n-1)
	}
	return t
}

func (t *tree) build(k, lo, hi int) {
	t.nodes[k].at = lo
	if lo == hi {
		return
	}
	mid := (lo + hi) / 2
	t.build(2*k, lo, mid)
	t.build(2*k+1, mid+1, hi)
}

// add adds v to the indexes from from to to, inclusive; nothing if from > to.
func (t *tree) add(from, to int, v wide) {
	t.addAt(1, 0, t.n-1, from, to, v)
}

func (t *tree) addAt(k, lo, hi, from, to int, v wide) {
	if to < lo || hi < from {
		return
	}
	nd := &t.nodes[k]
	if from <= lo && hi <= to {
		nd.best, nd.plus = nd.best.add(v), nd.plus.add(v)
		return
	}
	mid := (lo + hi) / 2
	t.addAt(2*k, lo, mid, from, to, v)
	t.addAt(2*k+1, mid+1, hi, from, to, v)
	l, r := t.nodes[2*k], t.nodes[2*k+1]
	if l.best.less(r.best) {
		l = r
	}
	nd.best, nd.at = l.best.add(nd.plus), l.at
}

// max returns the largest number of the indexes 0 to to, and the first index that has it.
func (t *tree) max(to int) (wide, int) {
	return t.maxAt(1, 0, t.n-1, to)
}

func (t *tree) maxAt(k, lo, hi, to int) (wide, int) {
	nd := t.nodes[k]
	if hi <= to {
		return nd.best, nd.at
	}
	mid := (lo + hi) / 2
	best, at := t.maxAt(2*k, lo, mid, to)
	if to > mid {
		if r, i := t.maxAt(2*k+1, mid+1, hi, to); best.less(r) {
			best, at = r, i
		}
	}
	return best.add(nd.plus), at
}
