module github.com/gitfn/gitfn/localcluster/assets/pause

go 1.26.0
