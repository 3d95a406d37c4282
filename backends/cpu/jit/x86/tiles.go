package x86

// Instructions of AMX, which multiplies tiles: eight registers of up to 16 rows of 64
// bytes. Tiles are loaded and stored by rows that an index register says how far apart
// they lie, so these forms have an index always, of scale 1.
var (
	TileLoad   = form("tileloadd", VEX, pF2, M0F38, 0x4B, RM, "tt", l0, stepped)
	TileStore  = form("tilestored", VEX, pF3, M0F38, 0x4B, MR, "tt", l0, stepped)
	TileDotB16 = form("tdpbf16ps", VEX, pF3, M0F38, 0x5C, RMV, "ttt", l0, noMem) // D += B · A, A in pairs
	TileDotI8  = form("tdpbssd", VEX, pF2, M0F38, 0x5E, RMV, "ttt", l0, noMem)   // A in fours
	TileDotU8  = form("tdpbuud", VEX, np, M0F38, 0x5E, RMV, "ttt", l0, noMem)
)

var (
	tileConfig  = &Form{PP: np, Map: M0F38, Op: 0x49, Layout: RM}
	tileRelease = &Form{PP: np, Map: M0F38, Op: 0x49, Layout: RM}
	tileZero    = &Form{PP: pF2, Map: M0F38, Op: 0x49, Layout: RM}
)

// TileConfig is LDTILECFG: the tiles' sizes from 64 bytes of memory. All become zero.
func (a *Asm) TileConfig(m Mem) {
	a.note("ldtilecfg", memory(0, &m))
	a.need(AMX, "ldtilecfg")
	a.vex(tileConfig, &Inst{VL: 16, IsMem: true, Mem: m})
}

// TileRelease gives the tiles back: what switches threads need not keep them.
func (a *Asm) TileRelease() {
	a.note("tilerelease")
	a.need(AMX, "tilerelease")
	a.vex(tileRelease, &Inst{VL: 16})
}

// TileZero makes a tile zero.
func (a *Asm) TileZero(d Reg) {
	a.note("tilezero", part{r: d, tile: true})
	a.need(AMX, "tilezero")
	a.vex(tileZero, &Inst{VL: 16, D: d})
}
