package ir

// params removes what constructs carry for nothing: a loop parameter that no
// round changes, a result that is the same outside value whichever way it
// comes, and one of two that are always equal.
func params(f *Func) bool {
	linkBrs(f.Body)
	p := &parameters{f: f, clock: 1}
	leaf := int32(0)
	for _, v := range f.leaves.list {
		leaf--
		v.mark = leaf
	}
	p.region(f.Body)
	if p.changed {
		resolveAll(f.Body)
	}
	return p.changed
}

type parameters struct {
	f       *Func
	clock   int32 // Value.mark says when a value was defined; leaves came first
	changed bool
}

func (p *parameters) define(list []*Value) {
	for _, v := range list {
		v.mark = p.clock
	}
	p.clock++
}

// region works on inner constructs before the ones around them, so that what
// passes through many of them is gone at once.
func (p *parameters) region(r *Region) {
	p.define(r.Params)
	p.f.work.Step(1 + len(r.Nodes))
	for _, n := range r.Nodes {
		entered := p.clock
		for _, s := range n.Regions {
			p.region(s)
		}
		switch n.Op {
		case If, Block:
			if len(n.Results) > 0 {
				p.results(n, entered)
			}
		case Loop:
			if len(n.Regions[0].Params) > 0 {
				p.loop(n)
			}
		}
		p.define(n.Results)
	}
}

// results removes results of an If or Block.
func (p *parameters) results(n *Node, entered int32) {
	var ways [][]*Value
	for _, s := range n.Regions {
		if !s.Ends() {
			ways = append(ways, s.Yield)
		}
	}
	for _, br := range n.brs {
		ways = append(ways, br.Args)
	}
	if len(ways) == 0 {
		return
	}
	seen := newSames(len(n.Results))
	drop := make([]bool, len(n.Results))
	p.f.work.Step(len(ways) * len(n.Results))
	for i, r := range n.Results {
		v := ways[0][i].find()
		same := v.mark < entered
		hash := uint64(0)
		for _, w := range ways {
			x := w[i].find()
			same = same && x == v
			hash = mix(hash, uint64(x.mark)<<8|uint64(x.Index&0xff))
		}
		if !same {
			v = nil
			if j := seen.find(hash, i, func(j int) bool {
				for _, w := range ways {
					if w[i].find() != w[j].find() {
						return false
					}
				}
				return r.Type == n.Results[j].Type
			}); j >= 0 {
				v = n.Results[j]
			}
		}
		if v != nil {
			r.repl, drop[i] = v, true
		}
	}
	p.drop(n, drop)
}

// loop removes parameters of a Loop, and with them the results.
func (p *parameters) loop(n *Node) {
	body := n.Regions[0]
	inits := n.Args[len(n.Args)-len(body.Params):]
	var ways [][]*Value
	if !body.Ends() {
		ways = append(ways, body.Yield)
	}
	for _, br := range n.brs {
		ways = append(ways, br.Args)
	}
	seen := newSames(len(inits))
	drop := make([]bool, len(inits))
	p.f.work.Step(len(ways) * len(inits))
	alike := newSames(len(inits))
	for i, q := range body.Params {
		init := inits[i].find()
		hash := mix(uint64(init.mark), uint64(init.Index))
		updates := hash
		same := true
		for _, w := range ways {
			x := w[i].find()
			if x == q {
				hash = mix(hash, 0)
				continue
			}
			same = same && x == init
			hash = mix(hash, uint64(x.mark)<<8|uint64(x.Index&0xff))
		}
		by, result := init, init
		if !same {
			by = nil
			j := seen.find(hash, i, func(j int) bool {
				for _, w := range ways {
					x, y := w[i].find(), w[j].find()
					if x != y && (x != q || y != body.Params[j]) {
						return false
					}
				}
				return init == inits[j].find() && q.Type == body.Params[j].Type
			})
			if j < 0 && alike.byHash != nil {
				for _, w := range ways {
					updates = mix(updates, liken(w[i], body, inits, likenDepth))
				}
				p.f.work.Step(len(ways))
				proofs := 0
				j = alike.find(updates, i, func(j int) bool {
					if proofs++; proofs > mostProofs {
						return false
					}
					c := &proof{q, body.Params[j], provedNodes}
					for _, w := range ways {
						if !c.equal(w[i], w[j]) {
							return false
						}
					}
					return init == inits[j].find() && q.Type == body.Params[j].Type
				})
			}
			if j >= 0 {
				by = body.Params[j]
				if n.Counted {
					result = n.Results[j]
				}
			}
		}
		if by != nil {
			q.repl, drop[i] = by, true
			if n.Counted {
				n.Results[i].repl = result
			}
		}
	}
	p.drop(n, drop)
}

func (p *parameters) drop(n *Node, drop []bool) {
	if dropCarried(n, drop) {
		p.changed = true
	}
}

// dropCarried takes the results (of a Loop: parameters, too) that are marked
// off n and all that carries values to them. n.brs must be linked.
func dropCarried(n *Node, drop []bool) bool {
	any := false
	for _, d := range drop {
		any = any || d
	}
	if !any {
		return false
	}
	if n.Op == Loop {
		inits := len(n.Args) - len(drop)
		n.Args = append(n.Args[:inits:inits], compact(n.Args[inits:], drop)...)
		n.Regions[0].Params = compact(n.Regions[0].Params, drop)
		reindex(n.Regions[0].Params)
	}
	if len(n.Results) > 0 {
		n.Results = compact(n.Results, drop)
		reindex(n.Results)
	}
	for _, s := range n.Regions {
		if !s.Ends() {
			s.Yield = compact(s.Yield, drop)
		}
	}
	for _, br := range n.brs {
		br.Args = compact(br.Args, drop)
	}
	return true
}

func reindex(list []*Value) {
	for i, v := range list {
		v.Index = uint16(i)
	}
}

// compact returns list without the marked elements.
func compact(list []*Value, drop []bool) []*Value {
	kept := make([]*Value, 0, len(list))
	for i, v := range list {
		if !drop[i] {
			kept = append(kept, v)
		}
	}
	return kept
}

func resolveAll(r *Region) {
	for _, n := range r.Nodes {
		resolve(n.Args)
		for _, s := range n.Regions {
			resolveAll(s)
		}
	}
	resolve(r.Yield)
}

// sames finds earlier equal elements by hash.
type sames struct{ byHash map[uint64][]int }

func newSames(n int) *sames {
	s := &sames{}
	if n > 1 {
		s.byHash = make(map[uint64][]int, n)
	}
	return s
}

// find returns an earlier element with the same hash for which equal holds,
// or notes i and returns -1.
func (s *sames) find(hash uint64, i int, equal func(j int) bool) int {
	if s.byHash == nil {
		return -1
	}
	for _, j := range s.byHash[hash] {
		if equal(j) {
			return j
		}
	}
	s.byHash[hash] = append(s.byHash[hash], i)
	return -1
}
