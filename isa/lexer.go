package isa

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hologram-project/hologram/isa/work"
)

// tokenKind is the kind of a token: a class below, or the character itself for
// punctuation.
type tokenKind rune

const (
	tokEnd     tokenKind = -1 - iota // end of the text
	tokNewline                       // end of a line
	tokName
	tokNumber  // as written, without sign
	tokInvalid // a character that has no place outside comments
)

// token is a piece of the text. Line is 1-based, col the 0-based byte.
type token struct {
	kind      tokenKind
	text      string
	line, col int
}

// describe names the token in an error message.
func (t token) describe() string {
	switch t.kind {
	case tokEnd:
		return "the end of the file"
	case tokNewline:
		return "the end of the line"
	case tokInvalid:
		return strconv.Quote(t.text)
	}
	return t.text
}

// lexer cuts text into tokens, line by line. A comment goes from ; to the end
// of its line. What lies behind the line at hand is not looked at before its
// time: a text that is refused at its beginning costs no more than that.
type lexer struct {
	work   *work.Meter
	text   string
	number int    // of the line at hand, from 1
	line   string // the line at hand
	before string // the one before it
	col    int    // byte
	rest   string // what follows the line
	more   bool   // whether a line follows
}

func newLexer(m *work.Meter, text string) *lexer {
	x := &lexer{work: m, text: text, rest: text, more: true}
	x.nextLine()
	return x
}

func (x *lexer) nextLine() {
	x.before = x.line
	x.line, x.rest, x.more = strings.Cut(x.rest, "\n")
	x.line = strings.TrimSuffix(x.line, "\r")
	x.col = 0
	x.number++
	x.work.Step(1 + len(x.line)/64)
}

// at returns a line up to the one at hand.
func (x *lexer) at(number int) string {
	switch number {
	case x.number:
		return x.line
	case x.number - 1:
		return x.before
	}
	line, _ := lineOf(x.text, number)
	return line
}

// lineOf returns a line of a text, by its number from 1, and whether there is one.
func lineOf(text string, number int) (line string, ok bool) {
	for ok = text != ""; ok && number > 0; number-- {
		line, text, ok = strings.Cut(text, "\n")
		if number == 1 {
			return strings.TrimSuffix(line, "\r"), true
		}
	}
	return "", false
}

func (x *lexer) next() token {
	line := x.line
	for x.col < len(line) && (line[x.col] == ' ' || line[x.col] == '\t') {
		x.col++
	}
	x.work.Step(1)
	t := token{line: x.number, col: x.col}
	if x.col == len(line) || line[x.col] == ';' {
		if !x.more {
			t.kind = tokEnd
			return t
		}
		x.nextLine()
		t.kind = tokNewline
		return t
	}
	end := x.col + 1
	switch c := line[x.col]; {
	case isNameStart(c):
		t.kind = tokName
		for end < len(line) && isNameByte(line[end]) {
			end++
		}
	case isDigit(c) || c == '.' && end < len(line) && isDigit(line[end]):
		t.kind = tokNumber
		end = x.col + numberLength(line[x.col:])
	case strings.IndexByte(",:[](){}@!+-", c) >= 0:
		t.kind = tokenKind(c)
	default:
		t.kind = tokInvalid
		_, size := utf8.DecodeRuneInString(line[x.col:])
		end = x.col + size
	}
	t.text = line[x.col:end]
	x.col = end
	return t
}

// numberLength returns how far the number at the start of s goes. It takes
// letters that no number has along, so that they are reported with it.
func numberLength(s string) int {
	exponent := byte('e')
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		exponent = 'p'
	}
	i := 1
	for i < len(s) {
		switch {
		case isNameByte(s[i]):
		case (s[i] == '+' || s[i] == '-') && s[i-1]|0x20 == exponent:
		default:
			return i
		}
		i++
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isNameStart(c byte) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func isNameByte(c byte) bool {
	return isNameStart(c) || isDigit(c) || c == '.' || c == '$'
}

// reservedNames cannot name registers, predicates, slots, parameters or
// tables: they mean something where such a name may stand.
var reservedNames = map[string]string{
	"index":  "it stands for the lane's element in slot[index]",
	"shared": "it stands for shared memory",
	"phi":    "it stands for a Φ-address",
	"true":   "it is an immediate",
	"false":  "it is an immediate",
	"inf":    "it is an immediate",
	"nan":    "it is an immediate",
}

// ReservedNames lists the words that cannot name registers, predicates, slots,
// parameters or tables, in alphabetical order.
func ReservedNames() []string { return slices.Sorted(maps.Keys(reservedNames)) }

// numberedName splits the spelling of a numbered register (prefix 'r') or
// predicate ('p'). ok says that s is one letter and digits; n is -1 where the
// number does not lie in 0 … limit-1 or is written with leading zeros.
func numberedName(s string, prefix byte, limit int) (n int, ok bool) {
	if len(s) < 2 || s[0] != prefix {
		return 0, false
	}
	for i := 1; i < len(s); i++ {
		if !isDigit(s[i]) {
			return 0, false
		}
		if n < limit {
			n = 10*n + int(s[i]-'0')
		}
	}
	if n >= limit || s[1] == '0' && len(s) > 2 {
		return -1, true
	}
	return n, true
}
