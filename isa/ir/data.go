package ir

import (
	"slices"

	"github.com/hologram-project/hologram/isa"
)

// addData takes a program's constant tables into f, equal ones once, and
// returns where each of them is. f.tables gets a hash of each one's contents:
// until renumber puts them in the order of their first use, their numbers are
// those of the declarations, which must not tell programs apart.
func (f *Func) addData(tables []isa.Data) (at []uint64) {
	if len(tables) == 0 {
		return nil
	}
	same := map[uint64][]int{} // by hash
	for _, d := range tables {
		h := mix(uint64(d.Type), uint64(len(d.Values)))
		for _, v := range d.Values {
			h = mix(h, v)
		}
		i := slices.IndexFunc(same[h], func(i int) bool {
			return f.Data[i].Type == d.Type && slices.Equal(f.Data[i].Values, d.Values)
		})
		if i >= 0 {
			i = same[h][i]
		} else {
			i = len(f.Data)
			same[h] = append(same[h], i)
			f.Data = append(f.Data, isa.Data{Type: d.Type, Values: d.Values})
			f.tables = append(f.tables, h)
		}
		at = append(at, uint64(i))
	}
	return at
}

// usedTables numbers the constant tables by first use.
type usedTables struct {
	from []isa.Data
	at   map[uint64]uint64
	to   []isa.Data
}

// number returns the new number of a table that is used.
func (u *usedTables) number(old uint64) uint64 {
	i, ok := u.at[old]
	if !ok {
		if u.at == nil {
			u.at = map[uint64]uint64{}
		}
		i = uint64(len(u.to))
		u.at[old] = i
		u.to = append(u.to, u.from[old])
	}
	return i
}
