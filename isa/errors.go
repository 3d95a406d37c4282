package isa

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxErrors is the largest number of errors that Assemble reports at once.
const MaxErrors = 10

// SyntaxError is one error in the text of a program. Its parts are kept apart
// so that a terminal may colour them; Error puts them together.
type SyntaxError struct {
	File     string
	Line     int    // 1-based
	Col      int    // 1-based, in characters
	Width    int    // characters that are wrong from Col on; at least 1
	Msg      string // what is wrong
	Hint     string // what would be right; may be empty
	LineText string // the source line
}

// Error returns "file:line:col: message", the source line, a caret below the
// place and the hint, on lines of their own.
func (e *SyntaxError) Error() string {
	line, caret := e.Excerpt()
	return withExcerpt(e.Position()+": "+e.Msg, line, caret, e.Hint)
}

// withExcerpt puts the parts of an error together, those that are not empty.
func withExcerpt(summary, line, caret, hint string) string {
	if line != "" {
		summary += "\n  " + line + "\n  " + caret
	}
	if hint != "" {
		summary += "\n  hint: " + hint
	}
	return summary
}

// Position returns "file:line:col", or without a file "line 3, column 5".
func (e *SyntaxError) Position() string { return position(e.File, e.Line, e.Col) }

func position(file string, line, col int) string {
	if file == "" {
		return fmt.Sprintf("line %d, column %d", line, col)
	}
	return fmt.Sprintf("%s:%d:%d", file, line, col)
}

// maxExcerpt is how much of a source line an error shows, in characters.
const maxExcerpt = 160

// Excerpt returns the source line as it may be shown, control characters
// replaced and long lines cut, and a line that marks the place below it. Both
// are empty where the source line is not known.
func (e *SyntaxError) Excerpt() (line, caret string) {
	if e.LineText == "" {
		return "", ""
	}
	return excerpt(e.LineText, e.Col, e.Width)
}

func excerpt(text string, col, width int) (line, caret string) {
	chars := []rune(strings.TrimRight(text, " \t\r\n"))
	col = max(1, min(col, len(chars)+1))
	from := 0
	if col > maxExcerpt {
		from = col - maxExcerpt/2
	}
	chars = chars[from:min(len(chars), from+maxExcerpt)]
	for i, c := range chars {
		switch {
		case c == '\t':
			chars[i] = ' '
		case !unicode.IsPrint(c):
			chars[i] = utf8.RuneError
		}
	}
	col -= from
	width = max(1, min(width, len(chars)-col+1))
	return string(chars), strings.Repeat(" ", col-1) + "^" + strings.Repeat("~", width-1)
}

// ErrorList holds the errors of one text, in order of place, at most MaxErrors.
type ErrorList []*SyntaxError

// Error returns the errors one after the other.
func (l ErrorList) Error() string {
	texts := make([]string, len(l))
	for i, e := range l {
		texts[i] = e.Error()
	}
	if len(l) == MaxErrors {
		texts = append(texts, fmt.Sprintf("stopped after %d errors", MaxErrors))
	}
	return strings.Join(texts, "\n")
}

// Unwrap gives errors.As and errors.Is the single errors.
func (l ErrorList) Unwrap() []error {
	errs := make([]error, len(l))
	for i, e := range l {
		errs[i] = e
	}
	return errs
}

// What nearestName looks at, so that a hint costs no more than the text: names
// up to a length, and so many of them.
const (
	mostCompared   = 40
	mostCandidates = 2000
)

// nearestName returns the candidate that name was probably meant to be, or "".
func nearestName(name string, candidates []string) string {
	if len(name) > mostCompared {
		return ""
	}
	name = strings.ToLower(name)
	// A third of it may be wrong, but not all.
	best, bestDistance := "", min(max(1, len(name)/3)+1, len(name))
	for _, c := range candidates[:min(len(candidates), mostCandidates)] {
		if len(c) > mostCompared {
			continue
		}
		if d := editDistance(name, strings.ToLower(c), bestDistance); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// didYouMean turns the candidate nearest to name into a hint, or gives otherwise.
func didYouMean(name string, candidates []string, otherwise string) string {
	if n := nearestName(name, candidates); n != "" {
		return fmt.Sprintf("did you mean %s?", n)
	}
	return otherwise
}

// editDistance counts the insertions, deletions, replacements and exchanges of
// neighbours that turn a into b, up to limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return min(row[len(b)], limit)
}
