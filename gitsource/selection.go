package gitsource

// Selection is what of a repository is wanted.
type Selection struct {
	// Reference is a ref in its widest sense: see Client.Resolve. Fetch does not look at it.
	Reference string
	// BaseDir is the directory below the root of the repository; "", "/" and "." are the root.
	BaseDir string
	// Include lists further paths of the repository that join the tree below BaseDir.
	Include []Include
	// Submodules says that submodules join the tree. False refuses a tree that has some.
	Submodules bool
	// Verification says whose signatures are believed. The zero value wants none. Fetch does not look at it:
	// it is given the commit that Resolve verified.
	Verification Verification
}

// Include is a path that joins a tree.
type Include struct {
	// Path is a file or a directory below the root of the repository.
	Path string `json:"path"`
	// To is where it stands below the base directory. Empty means the last part of Path.
	To string `json:"to,omitempty"`
}

// Verification says what must be signed, and by whom.
type Verification struct {
	// Mode is what must be signed. The zero value is nothing.
	Mode VerificationMode
	// Keys are the trusted keys. Each element is one file with armored OpenPGP public keys, lines of SSH public
	// keys as in authorized_keys (type, key, whose it is), or lines of allowed_signers as of ssh-keygen(1), with
	// the options namespaces, valid-after and valid-before. One line that is not understood makes all fail.
	Keys [][]byte
}

// VerificationMode says what must be signed.
type VerificationMode string

// The modes. The words are those of Flux's GitRepository.
const (
	// VerifyNothing wants no signature.
	VerifyNothing VerificationMode = ""
	// VerifyHEAD wants the commit to be signed.
	VerifyHEAD VerificationMode = "HEAD"
	// VerifyTag wants the annotated tag to be signed that the reference names.
	VerifyTag VerificationMode = "Tag"
	// VerifyTagAndHEAD wants both.
	VerifyTagAndHEAD VerificationMode = "TagAndHEAD"
)
