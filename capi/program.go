package main

// #include "support.h"
import "C"

import (
	"sync/atomic"
	"unsafe"

	"github.com/hologram-project/hologram/core"
)

// go_program_assemble makes a program of its text, size bytes of UTF-8. file is
// what errors call the text.
//
//export go_program_assemble
func go_program_assemble(file, text *C.char, size C.size_t, program_out *C.hologram_program) (status C.int32_t) {
	defer guard(&status)
	const what = "program_assemble"
	if program_out == nil {
		return null(what, "program_out")
	}
	if file == nil {
		return null(what, "file")
	}
	source, err := takeBytes(what, "text", text, size)
	if err != nil {
		return fail(err)
	}
	p, err := core.Assemble(C.GoString(file), unsafe.String(unsafe.SliceData(source), len(source)), interrupted)
	return adopt(kindProgram, p, err, program_out, (*core.Program).Close)
}

// go_program_decode makes a program of its binary form.
//
//export go_program_decode
func go_program_decode(data unsafe.Pointer, size C.size_t, program_out *C.hologram_program) (status C.int32_t) {
	defer guard(&status)
	const what = "program_decode"
	if program_out == nil {
		return null(what, "program_out")
	}
	code, err := takeBytes(what, "data", (*C.char)(data), size)
	if err != nil {
		return fail(err)
	}
	p, err := core.Decode(code, interrupted)
	return adopt(kindProgram, p, err, program_out, (*core.Program).Close)
}

// go_program_free frees a program. Launches of it that are under way go on.
//
//hologram:quick
//export go_program_free
func go_program_free(program C.hologram_program) (status C.int32_t) {
	defer guard(&status)
	p, err := unregister(handle(program), kindProgram, "program_free")
	if err != nil {
		return fail(err)
	}
	if last := lastText.Load(); last != nil && last.program == program {
		lastText.CompareAndSwap(last, nil)
	}
	p.Close()
	return C.HOLOGRAM_OK
}

// go_program_describe describes a program. Its hash is that of the canonical form.
//
//export go_program_describe
func go_program_describe(program C.hologram_program, info_out *C.hologram_program_info) (status C.int32_t) {
	defer guard(&status)
	const what = "program_describe"
	if info_out == nil {
		return null(what, "info_out")
	}
	p, err := lookup(handle(program), kindProgram, what)
	if err != nil {
		return fail(err)
	}
	hash, err := p.Hash(interrupted)
	if err != nil {
		return fail(err)
	}
	src := p.Source()
	made := C.hologram_program_info{
		slots: C.int32_t(len(src.Slots)), params: C.int32_t(len(src.Params)), instructions: C.int32_t(len(src.Insts)),
		residue: flag(p.Residue()), shared_bytes: C.int64_t(src.Shared),
	}
	for i, d := range src.Block {
		made.block[i] = C.uint32_t(d)
	}
	for i, b := range hash {
		made.hash[i] = C.uint8_t(b)
	}
	return answer(what, "info_out", info_out, made)
}

// go_program_slot describes slot number index of a program.
//
//hologram:quick
//export go_program_slot
func go_program_slot(program C.hologram_program, index C.int32_t, slot_out *C.hologram_operand_info) (status C.int32_t) {
	defer guard(&status)
	const what = "program_slot"
	if slot_out == nil {
		return null(what, "slot_out")
	}
	p, err := lookup(handle(program), kindProgram, what)
	if err != nil {
		return fail(err)
	}
	slots := p.Source().Slots
	if index < 0 || int(index) >= len(slots) {
		return fail(core.Errorf(core.Invalid, "%s: index is %d; the program has %d slots", what, index, len(slots)))
	}
	use := p.Verified().Slots[index]
	made := operand(slots[index].Name, slots[index].Type)
	made.reads, made.writes, made.indexed, made.bytes = flag(use.Reads), flag(use.Writes), flag(use.Indexed), flag(use.Bytes)
	return answer(what, "slot_out", slot_out, made)
}

// go_program_param describes parameter number index of a program.
//
//hologram:quick
//export go_program_param
func go_program_param(program C.hologram_program, index C.int32_t, param_out *C.hologram_operand_info) (status C.int32_t) {
	defer guard(&status)
	const what = "program_param"
	if param_out == nil {
		return null(what, "param_out")
	}
	p, err := lookup(handle(program), kindProgram, what)
	if err != nil {
		return fail(err)
	}
	params := p.Source().Params
	if index < 0 || int(index) >= len(params) {
		return fail(core.Errorf(core.Invalid, "%s: index is %d; the program has %d parameters", what, index, len(params)))
	}
	return answer(what, "param_out", param_out, operand(params[index].Name, params[index].Type))
}

func operand(name string, t core.Type) C.hologram_operand_info {
	info := C.hologram_operand_info{dtype: C.int32_t(t)}
	put(info.name[:], name)
	return info
}

// go_program_text gives one of a program's texts (HOLOGRAM_TEXT_…). size_out
// receives its size in bytes, of which at most capacity are written to text_out;
// no NUL is added.
//
//export go_program_text
func go_program_text(program C.hologram_program, which C.int32_t, text_out *C.char, capacity C.size_t, size_out *C.size_t) (status C.int32_t) {
	defer guard(&status)
	const what = "program_text"
	p, err := lookup(handle(program), kindProgram, what)
	if err != nil {
		return fail(err)
	}
	asked := textName{which: which}
	if last := lastText.Swap(nil); last != nil && last.program == program && last.name == asked {
		return give(last.text, text_out, capacity, size_out)
	}
	var text string
	switch which {
	case C.HOLOGRAM_TEXT_DISASSEMBLY:
		text = p.Disassemble()
	case C.HOLOGRAM_TEXT_BINARY:
		text = string(p.Encode())
	case C.HOLOGRAM_TEXT_CANONICAL:
		text, err = p.Canonical(interrupted)
	case C.HOLOGRAM_TEXT_ANALYSIS:
		text, err = p.Analysis(interrupted)
	case C.HOLOGRAM_TEXT_NAME:
		text = p.Source().Name
	default:
		err = core.Errorf(core.Invalid, "%s: which is %d; expected one of HOLOGRAM_TEXT_…", what, which)
	}
	if err != nil {
		return fail(err)
	}
	return giveAsked(what, program, asked, text, text_out, capacity, size_out)
}

// go_program_stage gives a form of a program on its way to the CPU's machine code as
// text to read: "ir", the canonical form, or one of those that follow it, of which the
// last is "machine"; the error of another stage lists them. engine is what makes it,
// "avx2" or "avx512", which need not be the machine's, or empty: what runs the program
// here. Sizes are as in hologram_program_text.
//
//export go_program_stage
func go_program_stage(program C.hologram_program, engine, stage *C.char, text_out *C.char, capacity C.size_t, size_out *C.size_t) (status C.int32_t) {
	defer guard(&status)
	const what = "program_stage"
	if engine == nil {
		return null(what, "engine")
	}
	if stage == nil {
		return null(what, "stage")
	}
	p, err := lookup(handle(program), kindProgram, what)
	if err != nil {
		return fail(err)
	}
	asked := textName{engine: C.GoString(engine), stage: C.GoString(stage)}
	if last := lastText.Swap(nil); last != nil && last.program == program && last.name == asked {
		return give(last.text, text_out, capacity, size_out)
	}
	text, err := p.Stage(asked.engine, asked.stage, interrupted)
	if err != nil {
		return fail(err)
	}
	return giveAsked(what, program, asked, text, text_out, capacity, size_out)
}

// giveAsked gives a text, and keeps it if there is no room for all of it.
func giveAsked(what string, program C.hologram_program, name textName, text string, text_out *C.char, capacity C.size_t, size_out *C.size_t) C.int32_t {
	if uint64(len(text)) > uint64(capacity) {
		asked := &askedText{program, name, text}
		lastText.Store(asked)
		if _, err := lookup(handle(program), kindProgram, what); err != nil { // freed meanwhile: nobody asks again
			lastText.CompareAndSwap(asked, nil)
		}
	}
	return give(text, text_out, capacity, size_out)
}

// textName says which of a program's texts is meant: which, or a stage.
type textName struct {
	which         C.int32_t
	engine, stage string
}

// askedText is a text of a program.
type askedText struct {
	program C.hologram_program
	name    textName
	text    string
}

// lastText is the text that was given last to somebody who had no room for all
// of it, and so asks again, until the program is freed. A canonical form is several
// times the program.
var lastText atomic.Pointer[askedText]
