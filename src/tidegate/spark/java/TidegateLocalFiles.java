package org.apache.hadoop.fs;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local disk, without processes: where its native library is missing, Hadoop starts `chmod` for each new file,
 * and `readlink` for each look at one.
 */
public class TidegateLocalFiles extends LocalFileSystem {
    private static final int ALL = 0777;

    public TidegateLocalFiles() {
        super(new Raw());
    }

    static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if ((permission.toShort() & ~ALL) != 0) {
                super.setPermission(path, permission); // Java has no sticky bit
            } else {
                Files.setPosixFilePermissions(pathToFile(path).toPath(), posix(permission.toShort()));
            }
        }

        public FileStatus getFileLinkStatus(Path path) throws IOException {
            boolean isLink = Files.isSymbolicLink(pathToFile(path).toPath());
            return isLink ? super.getFileLinkStatus(path) : getFileStatus(path);
        }

        private static Set posix(int bits) {
            PosixFilePermission[] all = PosixFilePermission.values(); // the first one has the highest bit
            Set found = EnumSet.noneOf(PosixFilePermission.class);
            for (int at = 0; at < all.length; at++) {
                if ((bits & (1 << (all.length - 1 - at))) != 0) {
                    found.add(all[at]);
                }
            }
            return found;
        }
    }

    /** The same for Hadoop's newer interface, whose rename fails if the new name exists. */
    static class Context extends ChecksumFs {
        Context(URI uri, Configuration conf) throws IOException, URISyntaxException {
            super(new RawContext(uri, conf));
        }
    }

    static class RawContext extends DelegateToFileSystem {
        RawContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
            super(uri, new Raw(), conf, FsConstants.LOCAL_FS_URI.getScheme(), false);
        }

        public int getUriDefaultPort() {
            return -1;
        }

        public FsServerDefaults getServerDefaults(Path path) throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        public FsServerDefaults getServerDefaults() throws IOException {
            return LocalConfigKeys.getServerDefaults();
        }

        public boolean isValidName(String name) {
            return true; // the disk itself refuses a name
        }
    }
}
