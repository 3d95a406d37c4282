package cuda

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/cubins"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/backends/hostmem"
)

// openCubins opens the folder with the code that was compiled before, nil where
// there is none or it cannot be used: then code lives as long as the process.
func openCubins() *cubins.Cache {
	dir, err := cubins.Folder()
	var c *cubins.Cache
	if err == nil && dir != "" {
		c, err = cubins.Open(dir, cubins.DefaultLimit)
	}
	if err != nil {
		warn(fmt.Errorf("cuda: machine code is not kept, and compiled anew by each process: %w; %s names another folder, or says off", err, cubins.Variable.Name))
		return nil
	}
	return c
}

// warn tells the user what is not right, though all goes on.
var warn = func(err error) { fmt.Fprintf(os.Stderr, "hologram: warning: %v\n", err) }

// load makes a module of PTX, whose function is name: of the code that was
// compiled before, if there is a folder of such and it has it.
func (d *device) load(text, name string) (*variant, error) {
	if d.cubins == nil {
		return d.module(append([]byte(text), 0), name)
	}
	key := cubins.KeyOf(d.info.Codegen, fmt.Sprint(d.optimised()), name, text)
	code, err := d.cubins.Get(key)
	if code != nil {
		v, refused := d.module(code, name)
		if refused == nil || errors.Is(refused, backends.ErrLost) {
			if v != nil {
				v.kept = true
			}
			return v, refused
		}
		err = fmt.Errorf("the driver does not take code that was kept: %w", refused)
	}
	if err != nil {
		warn(fmt.Errorf("cuda: machine code is compiled anew: %w", err))
	}
	v, code, err := d.linked(text, name)
	if err != nil {
		return d.module(append([]byte(text), 0), name) // the next process compiles it too
	}
	_ = d.cubins.Put(key, code)
	return v, nil
}

// linked makes a module of PTX and machine code to be kept. Such code comes from the
// driver's linker alone, which deals out registers as if others might call the
// function. Where far fewer lanes are at work for it, as of softmax of rows of 16,384,
// which then takes 1.4 times as long on an H200, the code gets no more than the driver
// gives the program by itself; elsewhere that would cost more than it brings, but where
// blocks meet, of which each waits for others, and is idle for it. What the driver gives
// it is found out, by compiling once more, where the code does not leave room for all
// lanes.
func (d *device) linked(text, name string) (v *variant, code []byte, err error) {
	if code, err = d.compile(text); err != nil {
		return nil, nil, err
	}
	if v, err = d.module(code, name); err != nil {
		return nil, nil, err
	}
	const fewest = 1 << 16 / 2048 // with so many registers all lanes that a multiprocessor takes have room
	linked, err := d.registers(v)
	if err != nil || !starved(text, fewest, linked) {
		return v, code, nil
	}
	own, err := d.module(append([]byte(text), 0), name)
	if err != nil {
		return v, code, nil
	}
	d.drop(v) // a launch may have asked for it, which holds its stream
	if given, err := d.registers(own); err == nil && starved(text, given, linked) {
		at := strings.Index(text, "\n.maxntid ")
		capped, err := d.compile(fmt.Sprintf("%s\n.maxnreg %d%s", text[:at], dealt(given), text[at:]))
		if err == nil {
			code = capped
		}
	}
	return own, code, nil
}

// registers is how many a lane of a function has.
func (d *device) registers(v *variant) (n int32, err error) {
	err = d.do(call{"cuFuncGetAttribute", func() driver.Result { return d.api.FuncAttribute(&n, driver.FuncRegisters, v.fn) }})
	return n, err
}

// starved reports whether far fewer lanes are at work for a program with the linker's
// registers than with the driver's own, or any fewer where blocks meet.
func starved(text string, own, linked int32) bool {
	_, rest, ok := strings.Cut(text, "\n.maxntid ")
	var lanes int32
	if _, err := fmt.Sscan(strings.TrimSuffix(strings.Fields(rest + " .")[0], ","), &lanes); !ok || err != nil {
		return false
	}
	if strings.Contains(text, "\n.minnctapersm ") { // which caps them, too
		return false
	}
	few, many := resident(linked, lanes), resident(own, lanes)
	return 2*many >= 3*few || many > few && strings.Contains(text, "\n.reqnctapercluster ")
}

// dealt is how many registers a lane gets that needs so many.
func dealt(registers int32) int32 { return (registers + 7) / 8 * 8 }

// resident is for how many blocks of so many lanes a multiprocessor has registers.
func resident(registers, lanes int32) int32 { return 1 << 16 / max(dealt(registers)*lanes, 1) }

// optimised is at which level the driver's compiler works.
func (d *device) optimised() int32 {
	if d.level != nil {
		return *d.level
	}
	return 4
}

// Options of the driver's compiler.
const (
	jitErrorLog     = 5
	jitErrorLogSize = 6
	jitLevel        = 7
)

// jit calls f with options for the driver's compiler, and adds to its error what
// that says.
func (d *device) jit(f func(n uint32, options *int32, values *uintptr) error) error {
	// The driver writes to an address that stands in values as a number, which does not move with a goroutine's stack.
	log := make([]byte, 8192)
	var pinner runtime.Pinner
	pinner.Pin(&log[0])
	defer pinner.Unpin()
	options := []int32{jitErrorLog, jitErrorLogSize}
	values := []uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log))}
	if d.level != nil {
		options, values = append(options, jitLevel), append(values, uintptr(*d.level))
	}
	pinner.Pin(&options[0]) // the driver keeps them as long as it compiles
	pinner.Pin(&values[0])
	if err := f(uint32(len(options)), &options[0], &values[0]); err != nil {
		said, _, _ := strings.Cut(string(log), "\x00")
		return fmt.Errorf("cuda: compile: %w\n%s", d.classified(err), strings.TrimSpace(said))
	}
	return nil
}

// module loads an image, PTX or machine code, whose function is name.
func (d *device) module(image []byte, name string) (*variant, error) {
	entry := append([]byte(name), 0)
	v := &variant{}
	err := d.jit(func(n uint32, options *int32, values *uintptr) error {
		err := d.do(
			call{"cuModuleLoadDataEx", func() driver.Result { return d.api.ModuleLoad(&v.module, &image[0], n, options, values) }},
			call{"cuModuleGetFunction", func() driver.Result { return d.api.ModuleFunction(&v.fn, v.module, &entry[0]) }},
		)
		if err != nil && v.module != 0 {
			err = errors.Join(err, d.do(call{"cuModuleUnload", func() driver.Result { return d.api.ModuleUnload(v.module) }}))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// compile returns the machine code of PTX.
func (d *device) compile(text string) (code []byte, err error) {
	image, unit := append([]byte(text), 0), []byte("atlas\x00")
	err = d.jit(func(n uint32, options *int32, values *uintptr) error {
		var l driver.Link
		var at unsafe.Pointer
		var size uint64
		err := d.do(
			call{"cuLinkCreate", func() driver.Result { return d.api.LinkCreate(n, options, values, &l) }},
			call{"cuLinkAddData", func() driver.Result {
				return d.api.LinkAddData(l, driver.LinkPTX, &image[0], uint64(len(image)), &unit[0], 0, nil, nil)
			}},
			call{"cuLinkComplete", func() driver.Result { return d.api.LinkComplete(l, &at, &size) }},
		)
		if err == nil {
			code = slices.Clone(hostmem.Bytes(uintptr(at), int64(size)))
		}
		if l != 0 { // which owns what at points to
			err = errors.Join(err, d.do(call{"cuLinkDestroy", func() driver.Result { return d.api.LinkDestroy(l) }}))
		}
		return err
	})
	return code, err
}
