package isa

// Programs that break the rule uniform, and programs just inside it.
var (
	badUniform = map[string]source{
		"barrier":    text("set.eq.u32 p, r252, 0\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"other side": text("set.eq.u32 p, r252, 0\nbra a, p\nmem_fence block\nbra b\na: bar_sync 0\nb: mem_fence block\nexit"),
		"both sides": text("set.eq.u32 p, r252, 0\nbra a, p\nbar_sync 0\nbra b\na: bar_sync 0\nb: mem_fence block\nexit"),
		"collective": text("set.eq.u32 p, r252, 0\nbra a, p\nblock_reduce_add.f32 x, 1\na: mem_fence block\nexit"),
		"by row":     text("sreg x, row\nset.eq.u64 p, x, 0\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by column":  text("sreg x, column\nset.eq.u64 p, x, 0\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by index.0": text("sreg x, index.0\nset.eq.u64 p, x, 0\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by index.7": text("sreg x, index.7\nset.eq.u64 p, x, 0\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by lane.y":  text("sreg x, lane.y\nset.eq.u32 p, x, 0\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by global":  text("set.lt.u64 p, r255, 9\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by load":    text("slot s u32\nldg.u32 x, s[0]\nset.lt.u32 p, x, 9\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by lds":     text("shared 4\nlds.u32 x, shared[0]\nset.lt.u32 p, x, 9\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by phase":   text("phase_get x\nset.lt.u16 p, x, 9\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by scan":    text("block_scan_add.u32 x, 1\nset.lt.u32 p, x, 9\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by table":   text("data t u8 { 1, 2 }\nldc.u8 x, t[r252]\nset.lt.u8 p, x, 9\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"negated":    text("set.eq.u32 p, r252, 0\nnot.pred q, p\nbra a, !q\nbar_sync 0\na: mem_fence block\nexit"),
		"arithmetic": text("add.u32 x, r252, 1\nmul.u32 y, x, 2\nset.eq.u32 p, y, 0\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by flow": text(`
			set.eq.u32 p, r252, 0
			mov.u32 x, 1
			bra a, p
			mov.u32 x, 2
			a: set.eq.u32 q, x, 1
			bra b, q
			bar_sync 0
			b: mem_fence block
			exit`),
		"uniform inside divergent": text(`
			set.eq.u32 p, r252, 0
			set.eq.u32 q, r253, 0
			bra a, p
			bra a, q
			bar_sync 0
			a: mem_fence block
			exit`),
		"count":        text("loop r252, end\nbar_sync 0\nend: mem_fence block\nexit"),
		"outer count":  text("loop r252, end\nloop 3, end\nbar_sync 0\nend: mem_fence block\nexit"),
		"after break":  text("set.eq.u32 p, r252, 0\nloop 3, end\nbra out, p\nbar_sync 0\nend: mem_fence block\nout: mem_fence block\nexit"),
		"before break": text("set.eq.u32 p, r252, 0\nloop 3, end\nbar_sync 0\nbra out, p\nend: mem_fence block\nout: mem_fence block\nexit"),
		"rounds": text(`
			mov.u32 i, r252
			top: bar_sync 0
			add.u32 i, i, 1
			set.lt.u32 p, i, 99
			bra top, p
			mem_fence block
			exit`),
		"rounds then": text(`
			mov.u32 i, 0
			top: add.u32 i, i, 1
			set.lt.u32 p, i, r252
			bra top, p
			set.eq.u32 q, i, 3
			bra a, q
			bar_sync 0
			a: mem_fence block
			exit`),
		"endless": text(`
			set.eq.u32 p, r252, 0
			top: mem_fence block
			bra a, p
			bar_sync 0
			a: mem_fence block
			bra top`),
		"by call":         text("set.eq.u32 p, r252, 0\nbra a, p\ncall f\na: mem_fence block\nexit\nf: bar_sync 0\nret"),
		"one of two ways": text("set.eq.u32 p, r252, 0\ncall f\nbra a, p\ncall f\na: mem_fence block\nexit\nf: bar_sync 0\nret"),
		"exit stores":     text("slot s u32\nset.eq.u32 p, r252, 0\nbra a, p\nbar_sync 0\na: stg.u32 1, s[index]\nexit"),
		"exit by a loop":  text("set.eq.u32 p, r252, 0\nbra a, p\nbar_sync 0\nexit\na: loop 3, end\nend: exit"),
		"next round": text(`
			mov.u32 x, r253
			loop 3, end
			set.eq.u32 p, x, 1
			bra a, p
			bar_sync 0
			a: mov.u32 x, r252
			end: exit`),
		"exit to a barrier": text("set.eq.u32 p, r252, 0\nbra a, p\nmem_fence block\nexit\na: bar_sync 0\nmem_fence block\nexit"),
		"endless, past it": text(`
			set.lt.u32 p, r252, 8
			top: mem_fence block
			bra top, p
			bar_sync 0
			bra top`),
		"rounds to exit, past it": text(`
			set.lt.u32 p, r252, 8
			mov.u32 j, 0
			top: set.ge.u32 q, j, 3
			bra done, q
			add.u32 j, j, 1
			bra top, p
			bar_sync 0
			bra top
			done: exit`),
		"rounds to exit, reduction": text(`
			set.lt.u32 p, r252, 8
			mov.u32 j, 0
			top: set.ge.u32 q, j, 3
			bra done, q
			add.u32 j, j, 1
			bra top, p
			block_reduce_add.u32 c, 1
			bra top
			done: exit`),
		"rounds to exit, around it": text(`
			set.lt.u32 p, r252, 8
			mov.u32 j, 0
			top: set.ge.u32 q, j, 3
			bra done, q
			add.u32 j, j, 1
			bra skip, p
			bar_sync 0
			skip: bra top
			done: exit`),
		"rounds to exit, by the lane": text(`
			set.lt.u32 p, r252, 8
			mov.u32 j, r252
			top: set.ge.u32 q, j, 300
			bra done, q
			add.u32 j, j, 1
			bra top, p
			bar_sync 0
			bra top
			done: exit`),
		"both sides go on": text(`
			set.lt.u32 p, r252, 8
			mov.u32 j, 0
			top: set.ge.u32 q, j, 3
			bra done, q
			add.u32 j, j, 1
			bra a, p
			bar_sync 0
			bra top
			a: bar_sync 0
			bra top
			done: exit`),
		// Ways back to one place are one loop: lanes come to the barrier in
		// different rounds.
		"different rounds": text(`
			mov.u32 i, 0
			mov.u32 j, 0
			top: add.u32 i, i, 1
			set.lt.u32 p, i, r252
			bra top, p
			bar_sync 0
			add.u32 j, j, 1
			set.lt.u32 q, j, 3
			bra top, q
			mem_fence block
			exit`),
		"out of two loops": text(`
			mov.u32 i, 0
			outer: bar_sync 0
			mov.u32 j, r252
			inner: add.u32 j, j, 1
			set.ge.u32 p, j, 300
			bra out, p
			set.lt.u32 q, j, 200
			bra inner, q
			add.u32 i, i, 1
			set.lt.u32 q, i, 3
			bra outer, q
			out: mem_fence block
			exit`),
		"one to an endless loop": text("set.eq.u32 p, r252, 0\nbra spin, p\nbar_sync 0\nexit\nspin: mem_fence block\nbra spin"),
	}
	goodUniform = map[string]source{
		"straight":     text("bar_sync 0\nblock_scan_add.u32 x, r252\nbar_sync 0\nexit"),
		"join":         text("set.eq.u32 p, r252, 0\nbra a, p\nmem_fence block\na: bar_sync 0\nexit"),
		"if else join": text("set.eq.u32 p, r252, 0\nbra a, p\nmem_fence block\nbra b\na: mem_fence block\nb: bar_sync 0\nexit"),
		"exit early":   text("sreg n, n\nset.ge.u64 p, r255, n\nbra done, p\nbar_sync 0\nmem_fence block\ndone: exit"),
		"exit at once": text("set.eq.u32 p, r252, 0\nbra go, p\nexit\ngo: bar_sync 0\nmem_fence block\nexit"),
		"exit after pure code": text(`
			set.eq.u32 p, r252, 0
			bra done, p
			bar_sync 0
			mem_fence block
			exit
			done: add.u32 x, r252, 1
			set.eq.u32 p, x, 0
			bra done2, p
			exit
			done2: exit`),
		"exit in a round": text(`
			set.eq.u32 p, r252, 0
			loop 3, end
			bra done, p
			bar_sync 0
			end: mem_fence block
			done: exit`),
		"by block":  text("set.eq.u32 p, r253, 0\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by sizes":  text("sreg x, rows\nsreg y, columns\nadd.u64 x, x, y\nsreg y, size.0\nadd.u64 x, x, y\nsreg y, size.7\nset.lt.u64 p, x, y\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by size":   text("set.eq.u32 p, r254, 0\nsreg x, n\nsreg y, grid_dim.z\nset.eq.u32 q, y, 2\nbra a, p\nbra a, q\nbar_sync 0\na: mem_fence block\nexit"),
		"by param":  text("param k u32\nldp.u32 x, k\nloop x, end\nbar_sync 0\nend: mem_fence block\nexit"),
		"by table":  text("data t u8 { 1, 2 }\nldc.u8 x, t[r253]\nset.lt.u8 p, x, 9\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"by class":  text("cls_get c\nunity_test q, 0\nset.lt.u8 p, c, 9\nbra a, p\nbra a, q\nbar_sync 0\na: mem_fence block\nexit"),
		"by reduce": text("block_reduce_max.u32 x, r252\nset.lt.u32 p, x, 9\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"counter": text(`
			mov.u32 w, 128
			top: bar_sync 0
			set.lt.u32 p, r252, w
			bra skip, !p
			mem_fence block
			skip: shr.u32 w, w, 1
			set.gt.u32 q, w, 0
			bra top, q
			mem_fence block
			exit`),
		"overwritten": text("mov.u32 r252, 1\nset.eq.u32 p, r252, 0\nbra a, p\nbar_sync 0\na: mem_fence block\nexit"),
		"continue":    text("set.eq.u32 p, r252, 0\nloop 3, end\nbar_sync 0\nbra end, p\nmem_fence block\nend: exit"),
		"after divergent rounds": text(`
			mov.u32 i, 0
			top: add.u32 i, i, 1
			set.lt.u32 p, i, r252
			bra top, p
			bar_sync 0
			exit`),
		"endless": text("set.eq.u32 p, r252, 0\ntop: bra a, p\nmem_fence block\na: bar_sync 0\nbra top"),
		"while, barrier, while": text(`
			param w u32
			ldp.u32 w, w
			mov.u32 j, r252
			l1: set.ge.u32 p, j, w
			bra d1, p
			add.u32 j, j, 64
			bra l1
			d1: bar_sync 0
			mov.u32 j, r252
			l3: set.ge.u32 p, j, w
			bra d3, p
			add.u32 j, j, 64
			bra l3
			d3: exit`),
		// A row that a block shares: its maximum, its sum, its quotients.
		"softmax": text(`
			slot x f32
			slot y f32
			param w u32
			ldp.u32 w, w
			mov.f32 m, 0
			mov.u32 j, r252
			l1: set.ge.u32 p, j, w
			bra d1, p
			ldg.f32 v, x[flat j]
			max.f32 m, m, v
			add.u32 j, j, 64
			bra l1
			d1: block_reduce_max.f32 m, m
			mov.f32 s, 0
			mov.u32 j, r252
			l2: set.ge.u32 p, j, w
			bra d2, p
			ldg.f32 v, x[flat j]
			sub.f32 v, v, m
			add.f32 s, s, v
			add.u32 j, j, 64
			bra l2
			d2: block_reduce_add.f32 s, s
			mov.u32 j, r252
			l3: set.ge.u32 p, j, w
			bra d3, p
			ldg.f32 v, x[flat j]
			div.f32 v, v, s
			stg.f32 v, y[flat j]
			add.u32 j, j, 64
			bra l3
			d3: exit`),
		"if, reduction, while to exit": text(`
			slot y f32
			param w u32
			ldp.u32 w, w
			mov.f32 m, 0
			set.ge.u32 q, r252, 8
			bra a, q
			add.f32 m, m, 1
			a: block_reduce_add.f32 m, m
			mov.u32 j, r252
			l3: set.ge.u32 p, j, w
			bra d3, p
			stg.f32 m, y[flat j]
			add.u32 j, j, 64
			bra l3
			d3: exit`),
		// Tiles come into shared memory, are used and are given up.
		"tiles, exit at the top": text(`
			param k u32
			shared 256
			ldp.u32 k, k
			mov.u32 t, 0
			top: set.ge.u32 q, t, k
			bra done, q
			set.lt.u32 p, r252, 32
			bra in, !p
			sts.u32 t, shared[0]
			in: bar_sync 0
			mov.u32 i, 0
			use: add.u32 i, i, 1
			set.lt.u32 p, i, r252
			bra use, p
			bar_sync 0
			add.u32 t, t, 1
			bra top
			done: exit`),
		"rows, each summed, exit at the top": text(`
			param rows u32
			ldp.u32 rows, rows
			mov.u32 row, r253
			top: set.ge.u32 q, row, rows
			bra done, q
			mov.u32 j, r252
			in: set.ge.u32 p, j, 500
			bra over, p
			add.u32 j, j, 64
			bra in
			over: block_reduce_add.u32 s, j
			add.u32 row, row, 9
			bra top
			done: exit`),
		"rounds of one lane's choice to exit": text(`
			mov.u32 j, r252
			top: add.u32 j, j, 64
			set.ge.u32 q, j, 900
			bra done, q
			bar_sync 0
			bra top
			done: exit`),
		"continue to exit": text(`
			set.eq.u32 p, r252, 0
			mov.u32 j, 0
			top: bar_sync 0
			add.u32 j, j, 1
			set.ge.u32 q, j, 9
			bra done, q
			bra top, p
			mem_fence block
			bra top
			done: exit`),
		"out of two loops": text(`
			param k u32
			ldp.u32 k, k
			mov.u32 i, 0
			outer: bar_sync 0
			mov.u32 j, 0
			inner: add.u32 j, j, 1
			set.ge.u32 p, j, k
			bra out, p
			set.lt.u32 q, j, r252
			bra skip, q
			mem_fence block
			skip: set.lt.u32 q, j, 20
			bra inner, q
			add.u32 i, i, 1
			set.lt.u32 q, i, 3
			bra outer, q
			out: bar_sync 0
			exit`),
		"inner rounds by the lane, endless outer": text(`
			top: mov.u32 j, 0
			in: add.u32 j, j, 1
			set.lt.u32 p, j, r252
			bra in, p
			bar_sync 0
			bra top`),
		"inner rounds by the lane, by jumps alone": text(`
			mov.u32 i, 0
			mov.u32 j, 0
			outer: bra top
			top: add.u32 i, i, 1
			set.lt.u32 p, i, r252
			bra top, p
			bar_sync 0
			add.u32 j, j, 1
			set.lt.u32 q, j, 3
			bra outer, q
			mem_fence block
			exit`),
		"no barrier":     text("set.eq.u32 p, r252, 0\nbra a, p\nmem_fence block\na: exit"),
		"nothing behind": text("set.eq.u32 p, r252, 0\nbar_sync 0\nbra a, p\nloop r252, a\nmem_fence block\na: exit"),
	}
)
