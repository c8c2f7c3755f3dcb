package gitsource

import (
	"errors"
	"fmt"
	"time"

	"github.com/gitfn/gitfn/gitsource/dialer"
)

// The kinds of failure, to be matched with errors.Is. Every error of this package matches at most one.
var (
	// ErrAuth says that the server refused the credentials, or wants some and got none.
	ErrAuth = errors.New("credentials refused")
	// ErrRefNotFound says that the server answered and the reference or commit is not there.
	ErrRefNotFound = errors.New("reference not found")
	// ErrRepositoryNotFound says that the server knows no such repository, or does not show it to these credentials.
	ErrRepositoryNotFound = errors.New("repository not found")
	// ErrBaseDirNotFound says that the commit has no directory of that name.
	ErrBaseDirNotFound = errors.New("base directory not found")
	// ErrTooLarge says that one of the Limits was passed.
	ErrTooLarge = errors.New("limit passed")
	// ErrUnsafeTree says that a tree holds something that must not be unpacked: a name or a link that leads
	// out of it, names that fall together on some disks, a submodule, or a Git LFS pointer.
	ErrUnsafeTree = errors.New("unsafe tree")
	// ErrUnavailable says that the server could not be asked: no connection, a timeout, a 429 or 5xx answer,
	// or an answer that broke off. It is always an *UnavailableError.
	ErrUnavailable = errors.New("server unavailable")
	// ErrAddressRefused says that the name of the server leads to an address that must not be connected to.
	ErrAddressRefused = dialer.ErrRefused
	// ErrHostKey says that an SSH server showed a key that is not known for it.
	ErrHostKey = errors.New("host key not known")
	// ErrUnverified says that what the reference leads to is not signed by a trusted key.
	ErrUnverified = errors.New("signature not verified")
	// ErrInvalidURL says that the URL of a repository cannot be used.
	ErrInvalidURL = errors.New("invalid URL")
	// ErrUnsupported says that the URL, the server or the repository wants something that is not built.
	ErrUnsupported = errors.New("not supported")
)

// UnavailableError is the ErrUnavailable of one request. It says nothing about the repository: what was true
// before the request is still the best answer.
type UnavailableError struct {
	// RetryAfter is how long nobody will ask again: what the server wished, or the back-off of its repository.
	// Zero when nothing speaks against asking at once.
	RetryAfter time.Duration
	// Err is what happened.
	Err error
}

// Error says what happened. It says the same as long as the failure stands.
func (e *UnavailableError) Error() string { return e.Err.Error() }

// Is reports whether target is ErrUnavailable.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns what happened.
func (e *UnavailableError) Unwrap() error { return e.Err }

// kindError is a sentence that matches one of the sentinels above, without repeating the sentinel's words.
type kindError struct {
	kind error
	text string
}

func (e *kindError) Error() string        { return e.text }
func (e *kindError) Is(target error) bool { return target == e.kind }

// errorf makes an error of a kind out of a sentence.
func errorf(kind error, format string, args ...any) error {
	return &kindError{kind: kind, text: fmt.Sprintf(format, args...)}
}

// retryAfter is how long the server of an error wants to be left alone.
func retryAfter(err error) time.Duration {
	var unavailable *UnavailableError
	if errors.As(err, &unavailable) {
		return unavailable.RetryAfter
	}
	return 0
}
