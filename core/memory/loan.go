package memory

// Loan lets others queue work on a line that uses memory, without it being noted there.
type Loan interface {
	// End ends it: when it returns, nobody queues such work any more. It takes no lock
	// but last ones.
	End()
}

// lent says to whom memory is.
type lent struct {
	line *Line // nil: to nobody
	loan Loan
}

// Lend lends memory of a pool to those who queue work on l in its turns, until another
// stream comes to it or its last user is gone: then all that l was given counts as use of
// it. begin makes the loan, if it is not lent to l already. Nil: others' work on it has
// still to pass, or of l's nobody could tell. The caller holds the device's lock.
func (m *Memory) Lend(l *Line, begin func() Loan) Loan {
	if m.foreign != nil || !m.Claimed(l) || l.Given() == 0 {
		return nil
	}
	if m.lent.line == nil {
		if loan := begin(); loan != nil {
			m.lent = lent{l, loan}
		}
	}
	return m.lent.loan
}

// recall ends what the memory is lent for to another line than l.
func (m *Memory) recall(l *Line) {
	by := m.lent
	if by.line == nil || by.line == l {
		return
	}
	by.loan.End()
	m.lent = lent{}
	t := by.line.Given()
	if o := m.order; o != nil && o.write.line == by.line {
		t = max(t, o.write.ticket)
	}
	m.After(by.line, t, true)
}
