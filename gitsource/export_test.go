package gitsource

import (
	"net"

	"golang.org/x/crypto/ssh"
)

// PinnedHosts is the known_hosts file that is built in.
const PinnedHosts = pinnedHosts

// CheckHostKey checks the key that a server shows.
func CheckHostKey(dir, address string, file []byte, key ssh.PublicKey) error {
	host, err := knowHost(dir, address, file)
	if err != nil {
		return err
	}
	return host.check(address, &net.TCPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 22}, key)
}
