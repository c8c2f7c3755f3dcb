package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/gitfn/gitfn/localcluster/cluster"
)

// options is what the command line says.
type options struct {
	name string
	home cluster.Home
	// assets makes `build` print the directory for KUBEBUILDER_ASSETS.
	assets bool
	args   []string
}

func parseOptions(verb string, args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet(verb, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.name, "name", "dev", "name of the cluster; clusters with different names run at the same time")
	if verb == "build" {
		flags.BoolVar(&o.assets, "assets", false, "print the directory with kube-apiserver, etcd and kubectl for KUBEBUILDER_ASSETS")
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.args = flags.Args()
	if err := cluster.CheckName(o.name); err != nil {
		return o, err
	}
	v := verbs[verb]
	if len(o.args) < v.least || (v.most >= 0 && len(o.args) > v.most) {
		return o, fmt.Errorf("%s: wrong number of arguments; usage: localcluster %s", verb, v.usage)
	}
	var err error
	o.home, err = cluster.DefaultHome()
	return o, err
}

func (o options) dir() cluster.Dir { return o.home.Dir(o.name) }

// spec returns the spec of a cluster that is up.
func (o options) spec() (cluster.Spec, error) {
	if !o.dir().Supervisor().Alive() {
		return cluster.Spec{}, fmt.Errorf("cluster %s is not up; run: localcluster up --name %s", o.name, o.name)
	}
	return cluster.Load(o.dir())
}
