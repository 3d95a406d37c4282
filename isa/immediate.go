package isa

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// maxNumberLen bounds the work that one number in a text can ask for. The
// longest exact f64 has some 1,100 characters.
const maxNumberLen = 4096

// immediateError says what is wrong with an immediate, and what would be right.
type immediateError struct{ msg, hint string }

func (e *immediateError) Error() string {
	if e.hint == "" {
		return e.msg
	}
	return e.msg + "; " + e.hint
}

// ParseImmediate returns the cell of type t that s writes.
//
// Integers are decimal or 0x…; hex may give the bit pattern of a signed type.
// Floats are decimal, rounded once to nearest even whatever the type, or hex
// floats such as 0x1.8p+1, or inf or nan, or nan(0x7fc00001) with the bits of a
// NaN of that type. Predicates are true and false. A number may have a minus
// sign.
func ParseImmediate(t Type, s string) (uint64, error) {
	rest, negative := strings.CutPrefix(s, "-")
	bits, err := parseImmediate(t, negative, rest)
	if err != nil {
		return 0, err
	}
	return bits, nil
}

func parseImmediate(t Type, negative bool, s string) (uint64, *immediateError) {
	if len(s) > maxNumberLen {
		return 0, &immediateError{fmt.Sprintf("number of %d characters", len(s)), fmt.Sprintf("at most %d are read", maxNumberLen)}
	}
	switch {
	case t == Pred:
		if i := strings.Index("false true", s); !negative && (s == "false" || s == "true") {
			return uint64(i / 6), nil
		}
		return 0, &immediateError{withSign(negative, s) + " is not a predicate", "the predicates are true and false, and p0 … p15"}
	case t.Float():
		return parseFloat(t, negative, s)
	case t.Integer():
		return parseInteger(t, negative, s)
	}
	return 0, &immediateError{fmt.Sprintf("no immediate has type %v", t), ""}
}

func withSign(negative bool, s string) string {
	if negative {
		return "-" + s
	}
	return s
}

// integerRange describes what an immediate of type t may be.
func integerRange(t Type) string {
	w := t.Bits()
	if t.Signed() {
		return fmt.Sprintf("%v goes from %d to %d, or 0x0 to %#x as a bit pattern",
			t, -int64(1)<<(w-1), int64(t.Mask()>>1), t.Mask())
	}
	return fmt.Sprintf("%v goes from 0 to %d", t, t.Mask())
}

func parseInteger(t Type, negative bool, s string) (uint64, *immediateError) {
	digits, base := s, 10
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		digits, base = s[2:], 16
	}
	magnitude, err := strconv.ParseUint(digits, base, 64)
	tooLarge := func() *immediateError {
		return &immediateError{fmt.Sprintf("%s is out of range for %v", withSign(negative, s), t), integerRange(t)}
	}
	if err != nil {
		if err.(*strconv.NumError).Err == strconv.ErrRange {
			return 0, tooLarge()
		}
		return 0, &immediateError{fmt.Sprintf("%s is not an integer, as %v asks for", withSign(negative, s), t), integerRange(t)}
	}
	limit := t.Mask()
	switch {
	case negative && !t.Signed():
		limit = 0
	case negative:
		limit = t.Mask()>>1 + 1
	case t.Signed() && base == 10:
		limit = t.Mask() >> 1
	}
	if magnitude > limit {
		return 0, tooLarge()
	}
	if negative {
		magnitude = -magnitude
	}
	return magnitude & t.Mask(), nil
}

func parseFloat(t Type, negative bool, s string) (uint64, *immediateError) {
	var sign uint64
	if negative {
		sign = signBit(t)
	}
	switch s {
	case "inf":
		return sign | infinity(t), nil
	case "nan":
		return sign | CanonicalNaN(t), nil
	}
	if payload, ok := strings.CutPrefix(s, "nan("); ok && !negative {
		bits, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(payload, "0x"), ")"), 16, 64)
		if err == nil && strings.HasPrefix(payload, "0x") && strings.HasSuffix(payload, ")") && bits&^t.Mask() == 0 && isNaN(t, bits) {
			return bits, nil
		}
		return 0, &immediateError{fmt.Sprintf("%s is not a NaN of %v", s, t),
			fmt.Sprintf("write the bits of one, such as nan(%#x)", CanonicalNaN(t))}
	}
	hex := strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X")
	if hex && !strings.ContainsAny(s, "pP") {
		return 0, &immediateError{fmt.Sprintf("%s is not a %v: a hex float has an exponent", withSign(negative, s), t),
			fmt.Sprintf("write %sp+0 for that number; mov_imm.%v takes a bit pattern", s, t)}
	}
	bits, overflow, err := roundText(t, s)
	if err != nil || s == "" || !(isDigit(s[0]) || s[0] == '.') || strings.Contains(s, "_") {
		return 0, &immediateError{fmt.Sprintf("%s is not a number", withSign(negative, s)),
			"a float is written 1.5, 1e-3, 0x1.8p+1, inf, -inf or nan"}
	}
	if overflow {
		return 0, &immediateError{fmt.Sprintf("%s is out of range for %v", withSign(negative, s), t),
			fmt.Sprintf("the largest %v is %s; infinity is written inf", t, FormatImmediate(t, infinity(t)-1))}
	}
	return sign | bits, nil
}

// roundText rounds the number that s writes to type t, once. It works on
// integers alone: the thread's floating-point state is the caller's, and must
// not decide what a program is.
func roundText(t Type, s string) (bits uint64, overflow bool, err error) {
	n, ok := parseNumber(s)
	if !ok {
		return 0, false, strconv.ErrSyntax
	}
	num, ok := new(big.Int).SetString(n.digits, n.base)
	if !ok || num.Sign() == 0 {
		return 0, false, nil
	}
	// Numbers far outside every type are told by their length alone, which
	// keeps the powers of ten below small.
	const decimals, binaries = 400, 2000 // f64 goes from 10^-324 to 10^309, 2^-1074 to 2^1024
	size, limit := len(n.digits)+n.exp, decimals
	if n.base == 16 {
		size, limit = num.BitLen()+n.exp, binaries
	}
	if size > limit {
		return infinity(t), true, nil
	}
	if size < -limit {
		return 0, false, nil
	}
	den, e := big.NewInt(1), n.exp
	if n.base == 10 {
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(n.exp, -n.exp))), nil)
		if e = 0; n.exp < 0 {
			den = power
		} else {
			num.Mul(num, power)
		}
	}
	// A quotient of 62 or 63 bits, and one more bit for whether there is a rest:
	// enough for pack to round as if it had all.
	shift := 62 - (num.BitLen() - den.BitLen())
	num.Lsh(num, uint(max(shift, 0)))
	den.Lsh(den, uint(max(-shift, 0)))
	rest := new(big.Int)
	num.QuoRem(num, den, rest)
	bits = pack(t, false, num.Uint64()<<1|uint64(rest.Sign()), e-shift-1)
	return bits, bits >= infinity(t), nil
}

// number is digits · base^exp, where exp counts powers of two if base is 16.
type number struct {
	digits    string // without leading zeros, but for one
	base, exp int
}

// parseNumber takes a decimal or hex float without its sign apart.
func parseNumber(s string) (n number, ok bool) {
	mark, digit := byte('e'), 1 // what introduces the exponent, what a digit behind the point counts
	n.base = 10
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		n.base, mark, digit, s = 16, 'p', 4, s[2:]
	}
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, string([]byte{mark, mark - 'a' + 'A'})); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
		if n.exp, ok = parseExponent(exponent); !ok {
			return n, false
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	n.digits = whole + fraction
	n.exp -= digit * len(fraction)
	for _, c := range []byte(n.digits) {
		if !isDigit(c) && (n.base == 10 || !strings.ContainsRune("abcdefABCDEF", rune(c))) {
			return n, false
		}
	}
	if n.digits == "" {
		return n, false
	}
	if n.digits = strings.TrimLeft(n.digits, "0"); n.digits == "" {
		n.digits = "0"
	}
	return n, true
}

// parseExponent reads digits with or without a sign. What is past any number
// that a text has room for counts as no more than that.
func parseExponent(s string) (exp int, ok bool) {
	const most = 8 * maxNumberLen
	digits := strings.TrimPrefix(s, "-")
	if len(digits) == len(s) {
		digits = strings.TrimPrefix(s, "+")
	}
	for _, c := range []byte(digits) {
		if !isDigit(c) {
			return 0, false
		}
		exp = min(10*exp+int(c-'0'), most)
	}
	if strings.HasPrefix(s, "-") {
		exp = -exp
	}
	return exp, digits != ""
}

// FormatImmediate writes the cell bits of type t so that ParseImmediate gives
// it back: floats as hex floats, integers in decimal, large u64 in hex.
func FormatImmediate(t Type, bits uint64) string {
	bits &= t.Mask()
	switch {
	case t == Pred:
		return strconv.FormatBool(bits == 1)
	case t.Float():
		return formatFloat(t, bits)
	case t.Signed():
		shift := 64 - t.Bits()
		return strconv.FormatInt(int64(bits<<shift)>>shift, 10)
	case t == U64 && bits > math.MaxUint16:
		return "0x" + strconv.FormatUint(bits, 16)
	}
	return strconv.FormatUint(bits, 10)
}

func formatFloat(t Type, bits uint64) string {
	switch {
	case bits == CanonicalNaN(t):
		return "nan"
	case isNaN(t, bits):
		return fmt.Sprintf("nan(%#x)", bits)
	case bits == infinity(t):
		return "inf"
	case bits == infinity(t)|signBit(t):
		return "-inf"
	}
	s := strconv.FormatFloat(math.Float64frombits(convertFloat(F64, t, bits)), 'x', -1, 64)
	// Go writes at least two digits of exponent.
	if n := len(s); s[n-2] == '0' && (s[n-3] == '+' || s[n-3] == '-') {
		s = s[:n-2] + s[n-1:]
	}
	return s
}
