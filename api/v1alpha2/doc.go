// Package v1alpha2 is the Function API, serverless.kyma-project.io/v1alpha2.
//
// It holds the types, the words of conditions and reasons, and the pure
// functions Default and Validate. In goes a Function as a user wrote it, out
// comes the same with defaults, or every fault with the path of its field. The
// package never reads a cluster. Group, version, kind and field names are those
// that existing Kyma Serverless manifests use.
//
// +kubebuilder:object:generate=true
// +groupName=serverless.kyma-project.io
package v1alpha2
